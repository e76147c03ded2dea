"""A machine with a JupyterHub on which three accounts go through an assignment.

Root runs this file in namespaces of its own (`IN_NAMESPACES`): the accounts, folders
and ports that it makes are seen by its own processes only, and end with them. The hub
is set up by the blocks of commands in the guide; `main` prints what was seen, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import requests
from nbformat import NotebookNode
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from autograder import examples  # noqa: E402 - found by the line above

RING = "ring_all_reduce"
ADDRESS = "http://127.0.0.1:8000"
DEADLINE = 120
PROF, ANN, BEN, STRANGER = "prof", "ann", "ben", "stranger"
CLONE = Path("/home/prof/collectives_lab")
SHARED = Path("/srv/collectives_lab")
LOG = Path("/srv/jupyterhub.log")

IN_NAMESPACES = ["unshare", "--mount", "--pid", "--net", "--mount-proc"]
IN_NAMESPACES += ["--fork", "--kill-child"]  # it ends with whoever has started it


def missing() -> list[str]:
    """What this machine lacks for it."""
    lacks = [] if os.geteuid() == 0 else ["to be root"]
    commands = ["unshare", "mount", "ip", "useradd", "chpasswd", "runuser", "bwrap"]
    lacks += [name for name in commands if not shutil.which(name)]
    if not Path(sys.executable).with_name("configurable-http-proxy").exists():
        lacks.append("configurable-http-proxy, by `make proxy`")
    return lacks


def sh(script: str, folder: Path | str = "/", account: str = "") -> str:
    """Run a block of commands, of another account if one is named."""
    command = ["bash", "-e", "-c", script]
    if account:
        command = ["runuser", "-l", account, "-c", script]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


# -- a machine of its own --------------------------------------------------------------


def make_private(folder: Path, held: Path) -> None:
    """Whatever is written into a folder from here on is for this namespace alone."""
    layers = Path(tempfile.mkdtemp(dir=held))
    upper, work = layers / "upper", layers / "work"
    upper.mkdir()
    work.mkdir()
    options = f"lowerdir={folder},upperdir={upper},workdir={work}"
    sh(f"mount -t overlay overlay -o {options} {folder}")


def make_machine() -> Path:
    """Private accounts and homes, a network of one machine; gives a private folder."""
    held = Path("/mnt")
    sh("mount -t tmpfs tmpfs /mnt && mount -t tmpfs -o mode=755 tmpfs /home")
    sh("mount -t tmpfs -o mode=755 tmpfs /srv && ip link set lo up")
    for path in (Path(sys.base_prefix), ROOT):
        for folder in reversed(
            path.parents
        ):  # as /root, where Python is in /root/.pyenv
            if not folder.stat().st_mode & 0o001:
                make_private(folder, held)
                folder.chmod(0o711)
    for folder in (Path("/etc"), ROOT / ".venv"):
        make_private(folder, held)
    return held


def clone(folder: Path) -> None:
    """A copy of the repository as it would be committed now."""
    listed = "git ls-files -z --cached --others --exclude-standard"
    files = subprocess.check_output(listed.split(), cwd=ROOT).decode().split("\0")
    for name in filter(None, files):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def set_up(held: Path) -> str:
    """Follow the guide, with this environment for the one that it makes.

    Gives the block that starts the hub. What students get stands in this repository's
    place too, as the environment's scripts know that path: nobody sees solutions there.
    """
    clone(held / "clone")
    machine, accounts, instructor, start = blocks(held / "clone")
    sh(f"mkdir {held}/venv && mount --bind {ROOT}/.venv {held}/venv")
    environment = (
        f"mkdir .venv && mount --bind {held}/venv .venv && mount --rbind . {ROOT}\n"
    )
    machine, made = re.subn(r"make env proxy .*\n", environment, machine)
    machine, copied = re.subn(r"git archive HEAD", "tar -c", machine)
    assert made == copied == 1
    sh(machine, held / "clone")
    ann = accounts.splitlines()[-1]
    sh(
        "\n".join(
            [accounts, ann.replace(ANN, BEN), f"useradd --create-home {STRANGER}"]
        )
    )
    words = "".join(f"{name}:{name} of 2026\n" for name in (PROF, ANN, BEN, STRANGER))
    subprocess.run(["chpasswd"], input=words, text=True, check=True)
    shutil.copytree(held / "clone", CLONE)
    sh(f"chown -R {PROF}: {CLONE}")
    sh(instructor, account=PROF)
    return start


def blocks(repository: Path) -> list[str]:
    """The blocks of commands in the guide's section on the hub."""
    guide = (repository / "autograder" / "GUIDE.md").read_text()
    section = guide.partition("### On a JupyterHub\n")[2].partition("\n### ")[0]
    return re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


@contextmanager
def hub(start: str) -> Iterator[None]:
    """A JupyterHub by the guide's block, until the end of this one."""
    with LOG.open("w") as log:
        process = subprocess.Popen(
            ["bash", "-e", "-c", start.replace("\njupyterhub", "\nexec jupyterhub")],
            stdout=log,
            stderr=log,
        )
    try:
        until(lambda: answers(f"{ADDRESS}/hub/health"), "the hub")
        yield
    except BaseException:
        sys.stderr.write(LOG.read_text()[-6000:])
        raise
    finally:
        process.terminate()
        process.wait(DEADLINE)


def answers(address: str) -> bool:
    try:
        return requests.get(address, timeout=5).ok
    except requests.ConnectionError:
        return False


def until(is_so: Any, what: str) -> None:
    """Wait for it, not for ever."""
    end = time.monotonic() + DEADLINE
    while not is_so():
        assert time.monotonic() < end, f"{what} is not there after {DEADLINE} s"
        time.sleep(0.5)


# -- users -----------------------------------------------------------------------------


class User:
    """A browser in which somebody has logged in."""

    def __init__(self, name: str, password: str = ""):
        self.name, self.home = name, f"{ADDRESS}/user/{name}"
        self.session = requests.Session()
        self.session.get(f"{ADDRESS}/hub/login", timeout=DEADLINE)
        form = {
            "username": name,
            "password": password or f"{name} of 2026",
            "_xsrf": self.xsrf("/hub/"),
        }
        page = f"{ADDRESS}/hub/login?next=/hub/spawn"
        self.answer = self.session.post(page, data=form, timeout=DEADLINE)

    def xsrf(self, path: str) -> str:
        (token,) = (
            cookie.value
            for cookie in self.session.cookies
            if cookie.name == "_xsrf" and cookie.path == path
        )
        return token or ""

    def wait(self) -> None:
        """Until this user's server answers."""
        status = f"{self.home}/api/status"
        until(
            lambda: (
                self.session.get(f"{self.home}/lab", timeout=DEADLINE).ok
                and self.session.get(status, timeout=DEADLINE).ok
            ),
            f"the server of {self.name}",
        )

    def ask(self, method: str, path: str, **more: Any) -> requests.Response:
        token = {"X-XSRFToken": self.xsrf(f"/user/{self.name}/")}
        address = f"{self.home}/{path}"
        return self.session.request(
            method, address, headers=token, timeout=DEADLINE, **more
        )

    def assignment(self, action: str) -> dict[str, Any]:
        """What JupyterLab's list of assignments does on a click; gives the new list."""
        asked = {"course_id": "collectives_lab", "assignment_id": RING}
        answer = self.ask("POST", f"assignments/{action}", json=asked)
        assert answer.ok and answer.json()["success"], answer.text
        return answer.json()

    def notebook(self) -> NotebookNode:
        answer = self.ask("GET", f"api/contents/{RING}/{RING}.ipynb")
        assert answer.ok, answer.text
        return nbformat.from_dict(answer.json()["content"])

    def save(self, notebook: NotebookNode) -> None:
        model = {"type": "notebook", "format": "json", "content": notebook}
        answer = self.ask("PUT", f"api/contents/{RING}/{RING}.ipynb", json=model)
        assert answer.ok, answer.text

    def feedback(self) -> list[str]:
        """The pages that were fetched, all of them."""
        folder, pages = f"api/contents/{RING}/feedback", []
        for day in self.ask("GET", folder).json()["content"]:
            for file in self.ask("GET", f"api/contents/{day['path']}").json()[
                "content"
            ]:
                path = f"api/contents/{file['path']}?type=file&format=text"
                pages.append(self.ask("GET", path).json()["content"])
        return pages

    def terminal(self, command: str) -> tuple[int, str]:
        """The exit status and the output of a command in a terminal of the server."""
        name = self.ask("POST", "api/terminals").json()["name"]
        address = f"{self.home}/terminals/websocket/{name}".replace("http", "ws", 1)
        page = requests.Request("GET", f"{self.home}/")
        held = self.session.prepare_request(page).headers["Cookie"]
        request = HTTPRequest(address, headers={"Cookie": held, "Origin": ADDRESS})
        return asyncio.run(asyncio.wait_for(_typed(request, command), DEADLINE))


async def _typed(request: HTTPRequest, command: str) -> tuple[int, str]:
    terminal, text = await websocket_connect(request), ""
    # Sums, since the terminal shows the line itself, too, and where it likes.
    line = f"echo begins=$((0))=; ({command}); echo status=$(($?))=; exit\n"
    await terminal.write_message(json.dumps(["stdin", line]))
    while (message := await terminal.read_message()) is not None:
        kind, *content = json.loads(message)
        text += content[0] if kind == "stdout" else ""
    ended = re.search(r"begins=0=(.*)status=(\d+)=", text, re.DOTALL)
    assert ended, text
    return int(ended[2]), ended[1]


FORGE = f"""
cd /srv/nbgrader/exchange/collectives_lab/inbound
at='+{RING}+2030-01-01 00:00:00 UTC+'
mkdir "{BEN}$at"for_ben '{ANN}+{RING}+nonsense+x' "{STRANGER}$at"own
ln -s {CLONE}/solutions/{RING} "{STRANGER}"'+{RING}+2031-01-01 00:00:00 UTC+link'
ln -s {CLONE}/solutions/{RING}/{RING}.ipynb "{STRANGER}$at"own
mkdir "{STRANGER}$at"own/folder
mkfifo "{STRANGER}$at"own/timestamp.txt
"""
"""What an account may do in the exchange: forge, disturb, and point elsewhere."""


# -- an assignment ---------------------------------------------------------------------


def main() -> dict[str, Any]:
    """Go through an assignment, and give what was seen on the way."""
    start, seen = set_up(make_machine()), {}
    with hub(start):
        refused = [User(ANN, "another"), User(STRANGER)]
        seen["refused"] = [user.answer.status_code for user in refused]
        prof, ann, ben = users = [User(name) for name in (PROF, ANN, BEN)]
        for user in users:
            user.wait()
        seen["owners"] = sh("ps -ewwo user:20,args | grep [s]ingleuser | cut -d' ' -f1")
        course(prof, "cd autograder && nbgrader generate_assignment", "--force")
        course(prof, "cd autograder && nbgrader release_assignment")
        hand_in(prof, ann, ben)
        sh(FORGE, account=STRANGER)
        seen["collected"] = course(prof, "cd autograder && nbgrader collect")
        course(prof, "python -m autograder grade")
        seen["grades"] = (CLONE / "autograder" / "grades" / f"{RING}.csv").read_text()
        give_back(prof, ann, ben, seen)
        seen["receipt"] = receipt(ANN)
        formgrader = {user.name: user.ask("GET", "formgrader") for user in users}
        seen["formgrader"] = {k: v.status_code for k, v in formgrader.items()}
        books = prof.ask("GET", f"formgrader/api/submissions/{RING}")
        seen["marks"] = {row["student"]: row["score"] for row in books.json()}
        seen["read"] = {path: ann.terminal(f"cat {path}")[0] for path in private()}
        look = "grep -rl 'BEGIN SOLUTION' --include=*.ipynb --exclude-dir=.venv"
        seen["solutions"] = ann.terminal(f"{look} /srv /home {ROOT}")[1]
        other = ann.session.get(f"{ben.home}/api/contents", timeout=DEADLINE)
        seen["another's server"] = other.status_code
    return seen


def course(prof: User, command: str, *more: str) -> str:
    """A command of the guide in the instructor's terminal; gives what it prints."""
    line = (
        f". {SHARED}/.venv/bin/activate; cd {CLONE}; {command} {RING} {' '.join(more)}"
    )
    code, output = prof.terminal(line)
    assert code == 0, output
    return output


def hand_in(prof: User, ann: User, ben: User) -> None:
    """Ann's work is right, and Ben's sums go through float32."""
    source = CLONE / "solutions" / RING / f"{RING}.ipynb"
    solved = examples.solved(nbformat.read(source, as_version=4))
    for user, change in ((ann, ""), (ben, "tensor.copy_(tensor.float())")):
        user.assignment("fetch")
        notebook = user.notebook()
        for own, theirs in zip(notebook.cells, solved.cells, strict=True):
            own.source = theirs.source
            if change and f"def {RING}(" in own.source:
                own.source = f"{own.source}\n    {change}\n"
        user.save(notebook)
        user.assignment("submit")


def private() -> list[str]:
    """What Ann must not read: the course's, the solutions, Ben's, the hub's."""
    exchange = Path("/srv/nbgrader/exchange/collectives_lab")
    paths = [
        f"{CLONE}/autograder/course_secret",
        f"{CLONE}/autograder/gradebook.db",
        f"{CLONE}/solutions/{RING}/{RING}.ipynb",
        f"/home/{BEN}/{RING}/{RING}.ipynb",
        f"{exchange}/inbound/{BEN}*/{RING}.ipynb",
        f"{exchange}/feedback/*.html",
        "/srv/jupyterhub/jupyterhub_cookie_secret",
        "/srv/jupyterhub/jupyterhub.sqlite",
    ]
    sh("\n".join(f"cat {path} >/dev/null" for path in paths))  # there, for root
    return paths


def give_back(prof: User, ann: User, ben: User, seen: dict[str, Any]) -> None:
    course(prof, "python -m autograder feedback")
    course(prof, "cd autograder && nbgrader release_feedback")
    for user in (ann, ben):
        user.assignment("fetch_feedback")
    seen["feedback"] = {user.name: user.feedback() for user in (ann, ben)}


def receipt(student: str) -> dict[str, Any]:
    path = CLONE / "autograder" / "receipts" / RING / f"{student}.json"
    return json.loads(path.read_text())


if __name__ == "__main__":
    print(json.dumps(main()))
