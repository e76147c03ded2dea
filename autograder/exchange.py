"""Collect from a hub's exchange, where students write, and believe the kernel alone.

Everybody may make any folder and any link there. nbgrader warns of a folder that claims
to be another student's and takes it all the same, stops at a name that it cannot read,
and follows links with the instructor's rights. `Collect` passes over what is not the
student's own, and says so.
"""

import os
import pwd
import re
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nbgrader.exchange.default.collect import ExchangeCollect

from autograder.handing_in import STUDENT
from autograder.nbgrader_commands import moment
from autograder.notebook import MAX_BYTES

NAME = re.compile(rf"({STUDENT})\+[^+]+\+([^+]+)(?:\+[^+]+)?")
"""Of a folder in the exchange: student, assignment, moment, and a random word."""

OPENED = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NOBODY = ""

LATE = 600
"""Seconds after the moment in its name at which a change of a folder is reported."""


class Collect(ExchangeCollect):
    """nbgrader's collecting, of what lies in the exchange as its student's own."""

    src_records: list[dict[str, Any]]

    def init_src(self) -> None:
        """Find each student's newest submission."""
        super().init_src()
        self.src_records = [r for r in self.src_records if r["username"] != NOBODY]

    def _path_to_record(self, path: str) -> dict[str, Any]:
        """Return a folder's student and time; nobody where its name may be forged."""
        name = os.path.basename(path)
        claimed = NAME.fullmatch(name)
        named = moment(claimed[2]) if claimed else None
        if claimed and named:
            why = self._not_own(os.lstat(path), claimed[1])
            if not why:
                self._compare(os.lstat(path).st_ctime, named, name)
                return {"username": claimed[1], "filename": name, "timestamp": named}
        else:
            why = "its name holds no student's id and time"
        self.log.warning("passed over in the exchange: %r: %s", name, why)
        return {"username": NOBODY, "filename": name, "timestamp": datetime.min}

    def _not_own(self, info: os.stat_result, student: str) -> str:
        """Return why something is no submission of this student's.

        Empty if it is one.
        """
        if not stat.S_ISDIR(info.st_mode):
            return "it is no folder"
        if self.check_owner and _account(info.st_uid) != student:
            return f"it was made by {_account(info.st_uid)}"
        return ""

    def _compare(self, changed: float, named: datetime, name: str) -> None:
        """Warn of a folder that has changed later than its name says."""
        if changed > named.replace(tzinfo=UTC).timestamp() + LATE:
            at = datetime.fromtimestamp(changed, UTC).strftime("%Y-%m-%d %H:%M UTC")
            self.log.warning(
                "%r was changed at %s, later than its name says; the marks go by the "
                "name",
                name,
                at,
            )

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        """Copy the files of a folder that are its student's own, and follow no link.

        The folder is opened once, and what its owner renames meanwhile is not read.
        """
        folder = os.open(src, OPENED | os.O_DIRECTORY)
        try:
            info = os.fstat(folder)
            if why := self._not_own(info, Path(dest).parent.name):
                self.log.warning("passed over in the exchange: %r: %s", src, why)
                return
            os.makedirs(dest)
            left = 1000 * self.coursedir.max_dir_size
            for name in sorted(os.listdir(folder)):
                content = _own_file(folder, name, info.st_uid, min(left, MAX_BYTES))
                if content is None:
                    self.log.warning("not collected from %r: %r", src, name)
                else:
                    Path(dest, name).write_bytes(content)
                    left -= len(content)
        finally:
            os.close(folder)


def _own_file(folder: int, name: str, owner: int, most: int) -> bytes | None:
    """Return a file's content.

    None if it is a link, no file, another's or too large.
    """
    try:
        file = os.open(name, OPENED, dir_fd=folder)
    except OSError:
        return None
    try:
        info = os.fstat(file)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != owner:
            return None
        with open(file, "rb", closefd=False) as opened:
            content = opened.read(most + 1)
    finally:
        os.close(file)
    return content if len(content) <= most else None


def _account(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the unknown account {uid}"
