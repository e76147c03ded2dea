"""verdict: 0 — raised

The name, the message and the place of an error are markup.
"""

TEXT = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J"
Error = type(TEXT, (Exception,), {})
SOURCE = "def fail(error):\n    raise error\n"
SPACE = {"__name__": TEXT}
exec(compile(SOURCE, "<script>alert(2)</script>:1", "exec"), SPACE)


def ring_all_reduce(tensor):
    SPACE["fail"](Error(TEXT))
