"""`%%ranks` in real kernels: what a reader sees, and what is left behind."""

import re
import time
from contextlib import contextmanager
from dataclasses import dataclass, field

import nbformat
import psutil
import pytest
import torch
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

DEADLINE = 60


@dataclass
class Shown:
    """What a cell shows; `order` has texts as they came."""

    stdout: str = ""
    stderr: str = ""
    bundles: list = field(default_factory=list)
    order: list = field(default_factory=list)
    error: dict | None = None
    reply: dict = field(default_factory=dict)

    @property
    def texts(self):
        return [bundle["text/plain"] for bundle in self.bundles]

    @property
    def traceback(self):
        return "\n".join(self.error["traceback"])


class Kernel:
    """A kernel with the extension loaded, that runs one cell at a time."""

    def __init__(self):
        self.manager, self.client = start_new_kernel(startup_timeout=60)
        self.run("%load_ext collectives_lab")
        self.run("from collectives_lab.launch import group")
        self.run("from collectives_lab.launch.processes import printed_output")
        self.run("group.FREED = 8.0")  # ranks on a busy machine need longer to be free

    @contextmanager
    def patient(self):
        """Fold what ranks show alike, however late the last of them does."""
        names = ("HOLD", "HOLD_PICTURES", "_HOLD_MOST")
        holds = ", ".join(f"printed_output.{name}" for name in names)
        self.run(f"holds = {holds}\n{holds} = 3 * [{DEADLINE}]")
        yield
        self.run(f"{holds} = holds")

    @property
    def processes(self):
        """The fork server and all the ranks: what descends from the kernel."""
        kernel = psutil.Process(self.manager.provisioner.pid)
        return kernel.children(recursive=True)

    def standing(self):
        """The sizes of the groups that stand, which `%ranks` shows.

        Processes would not tell: the fork server forks ranks ahead of need whenever it
        is idle, and one that has learned imports starts in the background.
        """
        shown = self.run("%ranks")
        return [line.split()[0] for table in shown.texts for line in table.splitlines()]

    def run(self, code, when_printed=None):
        """Run a cell; call `when_printed` once it has printed something."""
        shown = Shown()

        def take(message):
            nonlocal when_printed
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                old = getattr(shown, content["name"])
                setattr(shown, content["name"], old + content["text"])
                shown.order += content["text"].splitlines()
                if when_printed is not None and "begun" in content["text"]:
                    when_printed, call = None, when_printed
                    call()
            elif content.get("transient", {}).get("display_id"):
                pass  # a run that takes a second says so, and takes it back
            elif kind in ("display_data", "execute_result"):
                shown.bundles.append(content["data"])
                shown.order.append(content["data"]["text/plain"])
            elif kind == "error":
                shown.error = content

        execute = self.client.execute_interactive
        shown.reply = execute(code, timeout=DEADLINE, output_hook=take)["content"]
        return shown

    def completions(self, code):
        """What the end of a cell may go on to be."""
        reply = self.client.complete(code, reply=True, timeout=DEADLINE)
        return reply["content"]["matches"]

    def description(self, code):
        """What Shift-Tab shows at the end of a cell."""
        content = self.client.inspect(code, reply=True, timeout=DEADLINE)["content"]
        return content["data"]["text/plain"] if content["found"] else None

    def stop(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)
        self.manager.cleanup_resources()


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel()
    yield kernel
    left = kernel.processes
    kernel.stop()
    assert not psutil.wait_procs(left, timeout=10)[1]


def test_names_on_the_ranks_are_known(kernel):
    """Completion and Shift-Tab know the ranks' variables, torch, dist and options."""
    kernel.run("%%ranks 2\nweights_there = torch.ones(3)\ndef scaled(x, by=2): ...")
    cell = "%%ranks 2\n"
    assert "weights_there" in kernel.completions(cell + "weights_th")
    assert "weights_there.numel" in kernel.completions(cell + "weights_there.nume")
    assert "dist.all_reduce" in kernel.completions(cell + "dist.all_red")
    assert "--backend" in kernel.completions("%%ranks 2 --back")
    assert "weights_there" not in kernel.completions("weights_th")
    assert "tensor([1., 1., 1.])" in kernel.description(cell + "weights_there")
    assert "scaled(x, by=2)" in kernel.description(cell + "scaled")
    assert "all_reduce(tensor" in kernel.description(cell + "dist.all_reduce")
    assert kernel.description("nowhere_at_all") is None
    assert kernel.run("%%ranks 2\n[n for n in globals() if n[0] == '_' != n[1]]").texts


@pytest.mark.parametrize(
    ("end", "names"),
    [
        ("vector.", {"vector.shape", "vector.add_", "vector.view", "vector.zero_"}),
        ("vector.app", {"vector.apply_"}),
        ("vector.exten", {"vector.exten"}),  # the notebook's list has extend
        ("print(vector.sha", {"vector.shape", "vector.share_memory_"}),
        ("vector.__matm", {"vector.__matmul__"}),
        ("array.", {"array.shape", "array.mT"}),
        ("parameter.", {"parameter.grad"}),
        ("layer.weight.", {"layer.weight.grad", "layer.weight.shape"}),
        ("torch.", {"torch.zeros", "torch.nn"}),
        ("state['we", {"weight"}),
        ('state["', {"weight", "bias"}),
        ("only_here.exten", {"extend"}),
        ("import js", {"json"}),
    ],
)
def test_attributes_and_keys_are_those_on_the_ranks(kernel, end, names):
    """Properties that raise do no harm, and the notebook's variables come second."""
    kernel.run(
        "%%ranks 2\nimport numpy\nvector, array = torch.ones(3), numpy.ones(3)\n"
        "layer = torch.nn.Linear(2, 2)\nparameter, state = layer.bias, "
        "layer.state_dict()\ndir = 'data'"
    )
    kernel.run("vector = only_here = [1]")
    texts = kernel.completions("%%ranks 2\n" + end)
    assert names <= set(texts)
    if "vector." in end:
        assert all(text.startswith("vector.") for text in texts)
        assert "vector.append" not in texts


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("%%ranks --o", ["--on"]),
        ("%%ranks 2 --q", ["--quiet"]),
        ("%%ranks --object", ["--object"]),
        ("%%ranks --push sca", ["scalar", "scale"]),
        ("%%ranks --push=sca", ["scalar", "scale"]),
        ("%%ranks --push scale,scala", ["scalar"]),
        ("%%ranks --backend ", ["auto", "gloo", "nccl"]),
        ("%%ranks --backend gl", ["gloo"]),
        ("%%ranks --quiet --ti", ["--timeout"]),
        ("%%ranks --on s", ["s"]),
        ("%ranks st", ["stop"]),
        ("%ranks --tim", ["--timeout"]),
        ("%ranks restart --backend n", ["nccl"]),
        ("scale\n%ranks re", ["restart"]),
        ("%ranks s", ["stop"]),
        ("%ranks --", ["--backend", "--cluster", "--fabric", "--timeout"]),
    ],
)
def test_the_line_of_a_magic_is_completed_with_its_options(kernel, line, texts):
    """No names of Python are among them; what has no completion stays as it is."""
    kernel.run("scale, scalar = 3, 4")
    assert kernel.completions(line) == texts


def test_all_options_are_offered_after_two_dashes(kernel):
    """They are those that the magic declares, and nothing else."""
    texts = set(kernel.completions("%%ranks --"))
    values = {"--on", "--backend", "--cluster", "--fabric", "--timeout", "--push"}
    assert texts == values | {"--quiet", "--show"}


def test_a_name_error_says_that_the_ranks_have_the_name(kernel):
    """A normal cell is told where the variable lives; other names get no hint."""
    kernel.run("%%ranks 2\nonly_there = 5")
    assert "`only_there` is a variable of the ranks" in kernel.run("only_there").stderr
    assert kernel.run("nowhere_at_all").stderr == ""


def are_gone(processes):
    return not psutil.wait_procs(processes, timeout=10)[1]


# -- what a cell shows -----------------------------------------------------------------


def test_ranks_begin_with_what_ddp_imports_if_a_cell_has_named_it(kernel):
    """It is imported once, before they start, and not by each of them."""
    asked = "import sys; sorted(sys.modules.keys() & {'torch._dynamo'})"
    assert kernel.run(f"%%ranks 2\n{asked}").texts == ["ranks 0 and 1  []"]
    kernel.run("from torch.nn.parallel import DistributedDataParallel")
    assert kernel.run(f"%%ranks 3\n{asked}").texts == ["ranks 0-2  ['torch._dynamo']"]
    kernel.run("%ranks stop 2 3")


def test_variables_stay(kernel):
    """A cell finds on its rank what an earlier one left there; equal results fold."""
    first = kernel.run("%%ranks 4\nx = torch.ones(2) * rank\ndist.all_reduce(x)\nx")
    assert first.texts == ["ranks 0-3  tensor([6., 6.])"]
    with kernel.patient():
        then = kernel.run(
            "%%ranks\nprint('hello')\nprint('I am', rank)\nx[0].item() + rank"
        )
    assert then.stdout.splitlines() == [
        "[ranks 0-3] hello",
        *(f"[rank {rank}] I am {rank}" for rank in range(4)),
    ]
    assert then.texts == ["rank 0  6.0\nrank 1  7.0\nrank 2  8.0\nrank 3  9.0"]
    assert "6.0" in then.bundles[0]["text/html"]


def test_some_ranks_only(kernel):
    """--on runs the cell on the ranks that it names, and nowhere else."""
    kernel.run("%%ranks 4\nmine = 0")
    kernel.run("%%ranks --on 0,2-3\nmine = 1")
    assert kernel.run("%%ranks\nmine").texts == [
        "ranks 0, 2 and 3  1\nrank 1            0"
    ]


def test_semicolon_and_quiet(kernel):
    """A trailing semicolon, or --quiet, leaves out the last expression."""
    for cell in ("%%ranks 4\nrank;  # no", "%%ranks 4 -q\nrank", "%%ranks 4\nNone"):
        shown = kernel.run(cell)
        assert (shown.texts, shown.reply["status"]) == ([], "ok")


def test_push(kernel):
    """--push copies variables of the kernel to every rank first."""
    kernel.run("rate, names = 0.5, ['a', 'b']")
    shown = kernel.run("%%ranks 4 --push rate,names\nnames[rank % 2] * int(rate * 4)")
    assert shown.texts == ["ranks 0 and 2  'aa'\nranks 1 and 3  'bb'"]


def test_figures_arrive(kernel):
    """Figures come as PNG under their ranks, those that are the same only once."""
    kernel.run("%%ranks 3\nimport matplotlib.pyplot as plt")
    with kernel.patient():
        shown = kernel.run("%%ranks 3\nprint('text')\nplt.plot([1, rank // 2]);")
    assert shown.stdout == "[ranks 0-2] text\n"
    assert shown.texts[::2] == ["ranks 0 and 1:", "rank 2:"]
    assert ["image/png" in bundle for bundle in shown.bundles] == [False, True] * 2


def test_displays_keep_their_place(kernel):
    """What a rank displays stands between what it printed before and after."""
    kernel.run("%%ranks 2\n1")
    with kernel.patient():
        shown = kernel.run("%%ranks 2\nprint(1)\ndisplay('picture')\nprint(2)")
    before, picture, after = shown.order
    assert (before, after) == ("[ranks 0 and 1] 1", "[ranks 0 and 1] 2")
    assert picture == "ranks 0 and 1  'picture'"


def test_the_run_is_kept(kernel):
    """`_run` is the run of the last cell, and --show shows it under the cell."""
    shown = kernel.run("%%ranks 4 --show\ndist.all_reduce(torch.ones(8))\nrank")
    assert "all_reduce" in shown.bundles[-1]["text/html"]
    assert kernel.run("_run.results").texts == ["[0, 1, 2, 3]"]
    assert kernel.run("_run.trace.ops()").texts == ["{'all_reduce': 4}"]


def test_annotations_are_the_readers(kernel):
    """A cell has no __future__ that it does not import itself."""
    shown = kernel.run("%%ranks 2\nclass A:\n    x: int\nA.__annotations__")
    assert shown.texts == ["ranks 0 and 1  {'x': <class 'int'>}"]


def test_another_number_means_other_ranks(kernel):
    """Ranks of another number say once that they are others than those that stand."""
    kernel.run("%ranks stop")
    assert "variables" not in kernel.run("%%ranks 4\nmine = 4").stdout
    words = "Other ranks than those of `%%ranks 4`: variables are their own"
    assert words in kernel.run("%%ranks 3\n'mine' in globals()").stdout
    assert kernel.run("%%ranks 3\n1").stdout == ""
    assert kernel.run("%%ranks 4\nmine").stdout == ""


@pytest.mark.parametrize("magic", ["%ranks", "%%ranks"])
def test_help_shows_the_magic_as_it_is_written(kernel, magic):
    """The usage begins with as many % as the reader types."""
    (page,) = kernel.run(f"{magic}?").reply["payload"]
    assert f"\n  {magic} [" in page["data"]["text/plain"]


# -- what goes wrong -------------------------------------------------------------------


def test_an_error_is_reported_from_the_readers_line(kernel):
    """The line as the reader counts it and nothing of ours; the variables are kept."""
    kernel.run("%%ranks 4\nkept = rank")
    shown = kernel.run("%%ranks 4\n\nif rank == 1:\n    rank / 0\ndist.barrier()")
    count = shown.reply["execution_count"]
    assert shown.error["ename"] == "RankError"
    assert f"rank 1 of 4 failed in line 4 of Cell In[{count}]: `rank / 0`" in (
        shown.traceback
    )
    assert "ZeroDivisionError" in shown.traceback
    assert "keep their variables" in shown.traceback
    assert "collectives_lab" not in shown.traceback and "IPython" not in shown.traceback
    assert kernel.run("_run.world_size").texts == ["4"]
    assert kernel.run("%%ranks\nkept == rank").texts == ["ranks 0-3  True"]


def test_a_function_of_an_ordinary_cell_has_its_name(kernel):
    """A function from an ordinary cell fails in `Cell In[n]`, not in a file of /tmp."""
    count = kernel.run("def broken():\n    raise ValueError(5)").reply[
        "execution_count"
    ]
    shown = kernel.run("%%ranks 2 --push broken\nbroken()")
    assert f"line 2 of Cell In[{count}]: `raise ValueError(5)`" in shown.traceback
    assert "/tmp" not in shown.traceback


@pytest.mark.parametrize(
    "code, line, words",
    [
        ("x = = 3", 2, "invalid syntax"),
        ("x = 3\n%time x", 3, "IPython's %, ! and ? are not available"),
        ("x = !ls", 2, "IPython's %, ! and ? are not available"),
        ("import asyncio\nawait asyncio.sleep(0)", 3, "asyncio.run"),
        ("if True:\nx = 3", 3, "expected an indented block"),
    ],
)
def test_not_python(kernel, code, line, words):
    """A cell that is not Python is refused with its line and what is not there."""
    shown = kernel.run(f"%%ranks 4\n{code}")
    assert f"In[{shown.reply['execution_count']}], line {line}\n" in shown.traceback
    assert words in shown.traceback
    assert ("IPython" in shown.traceback) == ("IPython" in words)


@pytest.mark.parametrize(
    "line, words",
    [
        ("four", "the number of ranks is 1, 2, 3"),
        ("0", "the number of ranks is 1, 2, 3"),
        ("-1", "the number of ranks is 1, 2, 3"),
        ("1.5", "the number of ranks is 1, 2, 3"),
        ("4 --on 4", "4 ranks are numbered 0 to 3"),
        ("4 --on a-b", "name ranks like 0,2 or 0-2"),
        ("5 --timeout -1", "seconds, more than 0"),
        ("5 --timeout soon", "seconds, more than 0"),
        ("5 --backend mpi", "--backend mpi: need auto, gloo or nccl"),
        ("5 --push nobody", "--push nobody: there is no such variable"),
        ("5 --unheard", "unrecognized arguments: --unheard"),
        ("4 5", "unrecognized arguments: 5"),
    ],
)
def test_wrong_options(kernel, line, words):
    """What makes no sense is said in one sentence, and no rank starts."""
    before = kernel.standing()
    shown = kernel.run(f"%%ranks {line}\nprint('ran')")
    assert shown.reply["ename"] == "UsageError"
    assert words in shown.stderr and shown.stderr.count("\n") == 1
    assert shown.stdout == "" and shown.error is None
    assert kernel.standing() == before


@pytest.mark.parametrize("line", ["3", "status"])
def test_the_actions_are_named(kernel, line):
    """%ranks with another word says which there are, and how a cell runs on ranks."""
    output = kernel.run(f"%ranks {line}").stderr
    assert f"%ranks {line}: need restart or stop; `%ranks` alone shows" in output
    assert "`%%ranks 4` above a cell" in output and output.count("\n") == 1
    assert "%ranks --backend x: need auto" in kernel.run("%ranks --backend x").stderr


def test_a_variable_of_the_notebook_is_not_on_the_ranks(kernel):
    """A NameError for what the notebook has says how to copy it; no other one does."""
    kernel.run("%%ranks 4\n1")
    kernel.run("learning_rate = 0.5")
    shown = kernel.run("%%ranks\nlearning_rate * rank")
    assert "NameError: name 'learning_rate' is not defined" in shown.traceback
    assert "`%%ranks --push learning_rate` copies it" in shown.traceback
    for name in ("nobody_has_it", "get_ipython"):
        assert "--push" not in kernel.run(f"%%ranks\n{name}").traceback


def test_a_cell_is_timed_by_its_slowest_rank(kernel):
    """%%time tells of its run, %time of a statement; the last expression is shown."""
    kernel.run("%%ranks 3\nimport time")
    shown = kernel.run("%%ranks\n%%time\ntime.sleep(0.2 * rank)\nrank + 40")
    words = r"\d+ ms on rank 2, the slowest; .* on ranks 0 and 1"
    assert re.search(words, shown.stdout) and "42" in shown.texts[0]
    assert kernel.run("%%ranks\n%time here = rank").stdout.count(" on rank") == 2
    assert kernel.run("%%ranks --on 1\n%%time\nhere").stdout.endswith(" on rank 1\n")
    assert "it has no options" in kernel.run("%%ranks\n%%time -x\n1").stderr
    shown = kernel.run("%%ranks\n%%time\nhere\nnobody_has_it")
    assert "line 4 of" in shown.traceback and "slowest" not in shown.stdout


def test_a_cell_is_repeated_as_often_on_each_rank(kernel):
    """So %%timeit may communicate; it runs once by itself, and then in loops."""
    kernel.run("%%ranks 3\nx, count = torch.ones(4), [0]")
    loop = "count[0] += 1\ndist.all_reduce(x)"
    shown = kernel.run(f"%%ranks\n%%timeit -n 7 -r 3\n{loop}")
    words = r" a loop on rank \d, the slowest; .* \(median of 3 runs, loops: 7\)\n"
    assert re.search(words, shown.stdout)
    assert kernel.run("%%ranks\ncount[0]").texts == ["ranks 0-2  22"]
    output = kernel.run("%%ranks\n%timeit dist.barrier()").stdout
    assert re.search(r"\(median of 5 runs, loops: 10*\)", output)
    assert "-n LOOPS" in kernel.run("%%ranks\n%%timeit -x 3\n1").stderr
    assert "line 3 of" in kernel.run("%%ranks\n%%timeit\n1 / 0").traceback
    late = kernel.run("%%ranks\nx = 1\n%timeit x").traceback
    assert "%%time and %%timeit stand above all" in late


@pytest.mark.parametrize(
    "code",
    [
        "import tqdm.notebook\nfor _ in tqdm.notebook.tqdm(range(2)): pass",
        "import ipywidgets\nipywidgets.IntSlider()",
    ],
)
def test_a_widget_says_that_it_does_not_move(kernel, code):
    """And the page is not asked to look for it in the kernel."""
    kernel.run("%%ranks 4\n1")
    shown = kernel.run(f"%%ranks\n{code}")
    assert "ranks 0-3 made widgets, which do not move there" in shown.stderr
    assert "`from tqdm import tqdm`" in shown.stderr
    assert not any("widget-view" in str(bundle) for bundle in shown.bundles)
    assert "widgets" not in kernel.run("%%ranks\n1").stderr


def test_a_cell_cannot_ask(kernel):
    """input() in a cell on ranks says that there is no keyboard, in the cell's line."""
    shown = kernel.run("%%ranks 4\ninput('name? ')")
    assert "line 2" in shown.traceback and "a rank has no keyboard" in shown.traceback
    assert "closed file" not in shown.traceback and "EOF" not in shown.traceback


def test_too_many_ranks(kernel):
    """More ranks than the machine bears are refused without a traceback."""
    shown = kernel.run("%%ranks 100000000\n1")
    assert shown.traceback.startswith("LaunchError: world_size=100000000 is more")
    assert "Traceback" not in shown.traceback


BAD_PLACES = [
    ("--fabric text", "text is of type str, and no Fabric; make one"),
    ("--fabric nothing", "nothing is None, and no Fabric; make one"),
    ("--fabric small", "has room for 2 ranks and world_size is 4"),
    ("--cluster three", "cluster=3; it is an ipyparallel Client"),
    ("--cluster nothing", "nothing is None; need an ipyparallel Client"),
    pytest.param(
        *("--backend nccl", "wants a GPU for each of 4 ranks"),
        marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there are GPUs"),
    ),
]


@pytest.mark.parametrize("option, words", BAD_PLACES)
def test_what_cannot_be_costs_no_variables(kernel, option, words):
    """A place where ranks cannot stand is refused, not advised, and those stay."""
    kernel.run("text, nothing, three = 'abc', None, 3")
    kernel.run("from collectives_lab import fabrics\nsmall = fabrics.ethernet(1, 2)")
    kernel.run("%%ranks 4\nkept = rank")
    for line in (f"%ranks restart 4 {option}", f"%%ranks 4 {option}\n1"):
        shown = kernel.run(line)
        output = shown.stderr or shown.traceback
        assert words in output and "%ranks restart" not in output
        assert kernel.run("%%ranks 4\nkept == rank").texts == ["ranks 0-3  True"]
    assert option not in kernel.run("%ranks").texts[0]


def test_a_restart_of_all_is_one_or_none(kernel):
    """What does not suit some ranks of several ends none of them."""
    kernel.run("from collectives_lab import fabrics\nsmall = fabrics.ethernet(1, 2)")
    kernel.run("%ranks stop")
    for size in (2, 4):
        kernel.run(f"%%ranks {size}\nkept = 1")
    assert "room for 2 ranks" in kernel.run("%ranks restart --fabric small").traceback
    for size in (2, 4):
        assert "kept" in kernel.run(f"%%ranks {size}\nprint(list(globals()))").stdout
    kernel.run("%ranks stop")


def test_ranks_that_could_not_start_are_started_by_the_next_cell(kernel):
    """A restart that fails late loses the variables, and nothing else."""
    kernel.run("from collectives_lab.launch import LaunchError")
    kernel.run("from collectives_lab import fabrics\nnet = fabrics.ethernet(1, 4)")
    kernel.run("%%ranks 4\nkept = 1")
    kernel.run("from collectives_lab.launch.launch_spec import LaunchSpec as Spec")
    kernel.run("def fails(spec): raise LaunchError('no memory')")
    kernel.run("start, Spec.start = Spec.start, fails")
    assert "no memory" in kernel.run("%ranks restart 4 --fabric net").traceback
    kernel.run("Spec.start = start")
    assert kernel.run("%%ranks 4\n'kept' in globals()").texts == ["ranks 0-3  False"]
    assert "--fabric" not in kernel.run("%ranks").texts[0]


def test_the_timeout_of_a_session(kernel):
    """`%ranks --timeout` holds for later cells, unless one names its own."""
    shown = kernel.run("%ranks --timeout 0.5")
    assert shown.stdout == "`%%ranks` cells may take 0.5 s from now on\n"
    try:
        late = kernel.run("%%ranks 2\nwhile True: pass")
        assert "not done after 0.5 s" in late.traceback
        own = "%%ranks 2 --timeout 30\nimport time; time.sleep(0.6); 1"
        assert kernel.run(own).texts == ["ranks 0 and 1  1"]
    finally:
        kernel.run("%ranks --timeout 30")


def test_timeout(kernel):
    """--timeout ends a cell that never communicates, and is the time that is told."""
    shown = kernel.run("%%ranks 4 --timeout 0.5\nwhile True: pass")
    assert shown.error["ename"] == "DeadlineExceeded"
    assert "after 0.5 s" in shown.traceback and "while True: pass" in shown.traceback


# -- interrupts ------------------------------------------------------------------------


def test_interrupt_once(kernel):
    """The cell ends at once, says that variables are kept, and they are."""
    kernel.run("%%ranks 4\nkept = 7")
    began = []

    def interrupt():
        began.append(time.monotonic())
        kernel.manager.interrupt_kernel()

    shown = kernel.run("%%ranks 4\nprint('begun')\nwhile True: pass", interrupt)
    assert time.monotonic() - began[0] < DEADLINE / 2
    assert shown.error["ename"] == "KeyboardInterrupt"
    assert "keep their variables" in shown.traceback
    count = shown.reply["execution_count"]
    line = f"ranks 0-3: busy in line 3 of Cell In[{count}]: `while True: pass`"
    assert line in shown.traceback
    assert "collectives_lab" not in shown.traceback
    assert kernel.run("%%ranks 4\nkept").texts == ["ranks 0-3  7"]


@pytest.mark.slow
def test_interrupt_twice(kernel):
    """A second interrupt while ranks are freed ends it too; the next cell runs."""
    kernel.run("%ranks restart 4")
    stubborn = "%%ranks 4\nprint('begun')\nsum(range(10**12))"  # deaf to signals

    def interrupt():
        kernel.manager.interrupt_kernel()
        time.sleep(0.3)
        kernel.manager.interrupt_kernel()

    began = time.monotonic()
    shown = kernel.run(stubborn, interrupt)
    assert time.monotonic() - began < DEADLINE / 2
    assert shown.error["ename"] == "KeyboardInterrupt"
    assert "have ended" in shown.traceback
    assert kernel.run("%%ranks 4\nrank * 0").texts == ["ranks 0-3  0"]


# -- the ranks that stand --------------------------------------------------------------


def test_the_table(kernel):
    """%ranks shows the standing ranks with their variables, and ends them."""
    kernel.run("%ranks stop")
    assert "no ranks stand" in kernel.run("%ranks").stdout
    kernel.run("%%ranks 3\nweights = 1")
    row = kernel.run("%ranks").texts[0].splitlines()[1].split()
    assert (row[0], row[1], row[-1]) == ("3", "gloo", "weights")
    kernel.run("%ranks restart 3")
    assert "weights" not in kernel.run("%ranks").texts[0]
    server, *_ = psutil.Process(kernel.manager.provisioner.pid).children()
    assert kernel.run("%ranks stop 3").stdout == "3 ranks stopped\n"
    assert kernel.run("%ranks stop 3").stdout == "3 ranks did not stand\n"
    assert server.is_running()


def test_the_table_tells_of_ranks_that_have_died(kernel):
    """A rank that died between two cells is not shown as one that stands."""
    shown = kernel.run("%%ranks 2\nimport os\nos.getpid()").texts[-1]
    psutil.Process(int(shown.splitlines()[1].split()[-1])).kill()
    rows = kernel.run("%ranks").texts[0].splitlines()
    (row,) = [row for row in rows if row.startswith("2 ")]
    assert row.rstrip().endswith("ended; the next cell starts others")
    kernel.run("%ranks stop 2")


def test_a_network_is_felt(kernel):
    """--fabric names a variable; the ranks keep it until others are started."""
    kernel.run("%ranks stop\nfrom collectives_lab import fabrics")
    kernel.run("net = fabrics.uniform(2, alpha=0.2, beta=0)")
    cell = "\nimport time\nbegan = time.monotonic()\ndist.all_reduce(torch.ones(1))"
    cell += "\nround(time.monotonic() - began, 3)"

    def took(line):
        """What the line of the cell printed, and the least seconds of a rank."""
        shown = kernel.run(line + cell)
        return shown.stdout, min(
            float(s) for s in re.findall(r"\d+\.\d+", shown.texts[0])
        )

    output, seconds = took("%%ranks 2 --fabric net")
    assert "transfers as on Fabric(" in output and seconds > 0.18
    assert took("%%ranks 2")[1] > 0.18
    assert "--fabric net" in kernel.run("%ranks").texts[0]
    assert "restarted" in kernel.run("%ranks restart 2").stdout
    assert took("%%ranks 2 --fabric net")[1] > 0.18

    kernel.run("net = fabrics.uniform(2, alpha=0.5, beta=0)")
    wrong = kernel.run("%%ranks 2 --fabric net\n1").stderr
    assert "stand on what net was before, and net is another network now; " in wrong
    assert "`%ranks restart 2 --fabric net`" in wrong
    kernel.run("%ranks restart 2 --fabric net")
    assert took("%%ranks")[1] > 0.45
    same = "net = fabrics.uniform(2, alpha=0.5, beta=0)"
    kernel.run(f"{same}\nnet.stage_count\nagain = net")  # what it knows changes nothing
    for name in ("net", "again"):
        assert kernel.run(f"%%ranks 2 --fabric {name}\nrank * 0").texts
    kernel.run("slower = net.with_slow_link(0, 1, 2)")
    wrong = kernel.run("%%ranks 2 --fabric slower\n1").stderr
    assert "stand on net already; `%ranks restart 2 --fabric slower`" in wrong
    wrong = kernel.run("%%ranks 2 --fabric nowhere\n1").stderr
    assert "--fabric nowhere: there is no such variable" in wrong

    kernel.run("%ranks stop 2")
    assert "transfers" not in kernel.run("%%ranks 2\n1").stdout
    wrong = kernel.run("%%ranks 2 --fabric net\n1").stderr
    assert "2 ranks stand without --fabric already" in wrong
    kernel.run("%ranks stop")


def test_reload(kernel):
    """Loading again ends the ranks that stood, and unloading takes the magics away."""
    pids = kernel.run("%%ranks 2\nimport os\nos.getpid()").texts[0].split()[2::3]
    ranks = [psutil.Process(int(pid)) for pid in pids]
    assert len(ranks) == 2
    kernel.run("%load_ext collectives_lab")
    assert all(rank.is_running() for rank in ranks)
    kernel.run("%reload_ext collectives_lab")
    assert are_gone(ranks)
    kernel.run("%unload_ext collectives_lab")
    assert "not found" in kernel.run("%%ranks 2\n1").stderr
    kernel.run("%load_ext collectives_lab")
    assert kernel.run("%%ranks 2\n1").texts == ["ranks 0 and 1  1"]


def test_errors_name_the_cell_without_the_extension(kernel):
    """To import the package is enough for `lab.run` to say which cell failed."""
    kernel.run("%unload_ext collectives_lab")
    try:
        shown = kernel.run(
            "import collectives_lab as lab\n"
            "def fails():\n    raise ValueError(5)\n"
            "lab.run(fails, world_size=2)"
        )
        count = shown.reply["execution_count"]
        assert f"line 3 of Cell In[{count}]: `raise ValueError(5)`" in shown.traceback
    finally:
        kernel.run("%load_ext collectives_lab")


def test_completion(kernel):
    """Completion works in ordinary cells, and in the body of a %%ranks cell."""
    kernel.run("import math")
    for code in ("math.fact", "%%ranks 4\nmath.fact"):
        reply = kernel.client.complete(code, reply=True, timeout=DEADLINE)["content"]
        assert [m for m in reply["matches"] if "factorial" in m]


@pytest.mark.slow
def test_a_killed_kernel_leaves_nothing():
    """Kill -9 of the kernel ends the ranks, busy or not, and the fork server."""
    kernel = Kernel()
    kernel.run("%%ranks 3\nrank")
    left = []

    def kill():
        left.extend(kernel.processes)
        psutil.Process(kernel.manager.provisioner.pid).kill()
        raise InterruptedError

    with pytest.raises(InterruptedError):
        kernel.run("%%ranks 2\nprint('begun')\nwhile True: pass", kill)
    assert len(left) >= 6
    assert are_gone(left)
    kernel.stop()


@pytest.mark.slow
def test_run_all_stops_at_the_error():
    """Run All sees an error output in the cell that failed, and runs no other."""
    sources = [
        "%load_ext collectives_lab\n"
        "from collectives_lab.launch import group\n"
        "group.SETTLE = 10.0",  # both ranks fail, however late
        "%%ranks 2\nrank",
        "%%ranks 2\nno_name",
        "1",
    ]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in sources]
    )
    with pytest.raises(CellExecutionError, match="no_name"):
        NotebookClient(notebook, timeout=DEADLINE).execute()
    _, fine, failed, after = notebook.cells
    assert fine.outputs[-1].data["text/plain"] == "rank 0  0\nrank 1  1"
    assert failed.outputs[-1].ename == "RankError"
    assert "all 2 ranks failed in line 2 of Cell In[3]" in failed.outputs[-1].evalue
    assert after.execution_count is None
