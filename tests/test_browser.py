"""A reader's notebook in a real JupyterLab, in a real browser."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

playwright = pytest.importorskip("playwright.sync_api")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
CELLS = [
    "import torch, torch.distributed as dist, collectives_lab as lab\n"
    "%load_ext collectives_lab",
    "def mean():\n"
    "    x = torch.tensor([4.0 ** dist.get_rank()])\n"
    "    dist.all_reduce(x)\n"
    "    return x / 4\n"
    "lab.run(mean)",
    "%%ranks 4\nx = torch.tensor([float(rank)])\ndist.all_reduce(x)\nx",
    "%%ranks\nprint('slot', 10 * rank)\nx + 1",
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium: `make system` installs it"
    ),
]


@pytest.fixture
def lab_url(tmp_path: Path) -> Iterator[str]:
    """A JupyterLab that serves a notebook of CELLS, stopped by handle."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata["kernelspec"] = kernel
    nbformat.write(notebook, tmp_path / "first.ipynb")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    home = {
        "JUPYTER_CONFIG_DIR": str(tmp_path / "c"),
        "IPYTHONDIR": str(tmp_path / "i"),
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
        + [f"--port={port}", "--IdentityProvider.token=", "--ServerApp.port_retries=0"]
        + [f"--ServerApp.root_dir={tmp_path}"],
        env=os.environ | home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url + "/api/status", server)
        yield url
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(15)
        server.kill()
        server.wait()


def wait_for(url: str, server: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError):
            json.load(urllib.request.urlopen(url, timeout=5))
            return
        time.sleep(0.2)
    raise AssertionError(f"JupyterLab did not answer at {url}")


def run_all(page, last_output) -> None:
    """Choose Run All Cells until it was heard: JupyterLab drops what comes too soon."""
    for _ in range(6):
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_text("Run All Cells", exact=True).click()
        with contextlib.suppress(playwright.TimeoutError):
            last_output.wait_for(timeout=25_000)
            return
    raise AssertionError("Run All Cells was never heard")


@pytest.fixture
def page(lab_url: str) -> Iterator:
    """The notebook, open in Chromium, with all cells run."""
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1200, "height": 1400})
        page.goto(f"{lab_url}/lab/tree/first.ipynb")
        page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
        ready = '.jp-Notebook-ExecutionIndicator[data-status="idle"]'
        page.wait_for_selector(ready, timeout=60_000)
        last = page.locator(".jp-Notebook .jp-Cell").nth(len(CELLS) - 1)
        run_all(page, last.locator(".jp-OutputArea-output").first)
        page.wait_for_timeout(1000)
        yield page
        browser.close()


@pytest.mark.timeout(600)
def test_a_reader_runs_all_cells_and_sees_results_and_pictures(page, tmp_path):
    """Run All shows the Run with its picture, folded values, and lines by rank."""
    page.screenshot(path=os.environ.get("LAB_SCREENSHOT", tmp_path / "lab.png"))
    outputs = [
        page.locator(".jp-Notebook .jp-Cell").nth(i).locator(".jp-Cell-outputArea")
        for i in range(len(CELLS))
    ]
    assert page.locator('[data-mime-type="application/vnd.jupyter.error"]').count() == 0
    run = outputs[1]
    assert "21.25" in run.inner_text() and "all_reduce" in run.inner_text()
    picture = run.locator("figure img").first
    assert picture.evaluate("i => i.complete && i.naturalWidth") > 300
    assert "4 ranks" in (picture.get_attribute("alt") or "")
    assert outputs[2].inner_text().count("6.") == 1
    lines = outputs[3].inner_text()
    assert all(f"slot {10 * rank}" in lines for rank in range(4)) and "7." in lines
