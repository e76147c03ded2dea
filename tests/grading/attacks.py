"""Texts that would act in the browser of who grades, in every form that we know."""

ACT = "void(document.title=/acted/.source)"
ELSEWHERE = "//tracker.test/seen"
"""A machine that no page may ask for anything."""
IMAGE = "http://tracker.test/x.png"
"""An image there; it may become a link, which asks only when it is clicked."""
HONEST = "https://pytorch.org/docs"

LINKS = [
    f"[as this plot shows](javascript:{ACT})",
    f"[a](JaVaScRiPt:{ACT})",
    f"[a](&#106;avascript:{ACT})",
    f"[a](&#x6A;avascript&colon;{ACT})",
    f"[a](java&Tab;script:{ACT})",
    f"[a](java&NewLine;script:{ACT})",
    f"[a](&#1;javascript:{ACT})",
    f"[a](<\tjavascript:{ACT}>)",
    f"[a](java%0ascript:{ACT})",
    f"[a](javascript://uni.edu/%0a{ACT})",
    f"[a][1]\n\n[1]: javascript:{ACT}",
    f"[a]\n\n[a]: <javascript:{ACT}> 'title'",
    f"<javascript:{ACT}>",
    f"[a](vbscript:{ACT})",
    f"[a](data:text/html,<script>{ACT}</script>)",
    "[a](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    f"[a](blob:{ACT})",
    f"[a](view-source:javascript:{ACT})",
    f"[![b](x)](javascript:{ACT})",
    f"- [x] [a](javascript:{ACT})",
    f"| t |\n|---|\n| [a](javascript:{ACT}) |",
    f"a\n: [d](javascript:{ACT})",
    "[a](/logout)",
    "[a](../../../logout)",
    "[a](http:logout)",
    "[a](http:/logout)",
    "[a](https:logout)",
    "[a](\\\\tracker.test/x)",
    "[a](//tracker.test/x)",
    "[a](evil.html)",
    "[a](http://localhost:8888/formgrader?path=/tmp)",
    "[a](http://127.1/logout)",
    "[a](http://[::1]/logout)",
    "[a](http://2130706433/)",
    "[a](http://name@localhost/)",
]
IMAGES = [
    f"![x]({IMAGE})",
    f"![x]({ELSEWHERE}.png)",
    "![x](/logout)",
    "![x](http:logout)",
    f"![x][i]\n\n[i]: {ELSEWHERE}.png",
    "![x](data:image/svg+xml,<svg/onload=alert(1)>)",
    "![x](attachment:../../course_secret)",
    '![x](attachment:x.png" onerror="alert(1))',
    f'![x](x.png "\\" onerror={ACT}")',
    "![x](&#x68;ttp://tracker.test/x.png)",
]
HTML = [
    f"<script>{ACT}</script>",
    f"<img src=x onerror={ACT}>",
    f"<img src=x srcset='{ELSEWHERE} 2x'>",
    f"<svg onload={ACT}><a xlink:href='javascript:{ACT}'><text y=9>a</text></a></svg>",
    f"<math><mtext><img src=x onerror={ACT}></mtext></math>",
    f"<a href='javascript:{ACT}'>a</a>",
    f"<iframe srcdoc='<script>parent.{ACT}</script>'></iframe>",
    f"<form action={ELSEWHERE}><input name=attributes><button>a</button></form>",
    "<base href='//tracker.test/'>",
    f"<meta http-equiv=refresh content='0;url={ELSEWHERE}'>",
    f"<link rel=stylesheet href={ELSEWHERE}>",
    f"<style>body {{ background: url({ELSEWHERE}) }}</style>",
    f"<div style='background: url({ELSEWHERE})'>a</div>",
    f"<object data={ELSEWHERE}></object><embed src={ELSEWHERE}>",
    f"<video poster={ELSEWHERE} src={ELSEWHERE}></video>",
    f"<noscript><p title='</noscript><img src=x onerror={ACT}>'>",
    f"`<b>`</code><img src=x onerror={ACT}>",
    f"```mermaid\n<img src=x onerror={ACT}>\n```",
    f"```python\n</pre><img src=x onerror={ACT}>\n```",
    f"```<img/src=x/onerror={ACT}>\na\n```",
    f"<details open ontoggle={ACT}><summary>a</summary></details>",
    "<a id=formgrader name=MathJax>a</a><b class='full-credit'>a</b>",
    f"&lt;img src=x onerror={ACT}&gt; \\<script>{ACT}\\</script>",
]
TEX = [
    f"$\\href{{javascript:{ACT}}}{{x}}$",
    f"$$\\require{{html}}\\style{{background:url({ELSEWHERE})}}{{x}}$$",
    f"$</script><img src=x onerror={ACT}>$",
    f"\\begin{{a}}<img src=x onerror={ACT}>\\end{{a}}",
    f"$\\unicode{{<img src=x onerror={ACT}>}}$",
]
ALL = LINKS + IMAGES + HTML + TEX
FAIR = f"""| rank | sent |
|:-:|--|
| 0 | **12** |

```python
def f(x): return x < 3
```

The time is $2 (P-1) \\alpha$, see [the docs]({HONEST}). ![p](attachment:p.png)
"""
