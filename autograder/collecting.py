"""The rules by which nbgrader's `zip_collect` unpacks the zips of an LMS or a mail.

Put it into `downloaded/<assignment>/archive/`: notebooks, or zip files of them, named
by `python -m autograder submit`. Each zip is one sender's, except for those in
`archive/lms/`: the LMS made them, and writes before each name who sent it.
"""

import re
import shutil
import zipfile
import zlib
from collections import defaultdict
from pathlib import Path
from typing import IO

from nbgrader.plugins import ExtractorPlugin, FileNameCollectorPlugin
from traitlets import default

from autograder.handing_in import pattern
from autograder.nbgrader_commands import moment
from autograder.notebook import MAX_BYTES
from autograder.words import one_line

PACKED = (".zip", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".tar", ".rar", ".7z")
BY_LMS = "lms"
"""The folder of `archive/` for the zip files that the LMS itself has made."""

OF_A_SENDER = 4 * MAX_BYTES
OF_ALL = 2 * 10**9
"""Bytes that are unpacked, of one sender and of the whole folder."""
ENTRIES = 20_000
"""Files in a zip."""
RATIO = 200
"""Bytes that a byte of a zip may become, past the first million."""

PREFIXES = [
    re.compile(r"[^/]+?_[0-9]+_assignsubmission_[a-z]+_/?"),  # Moodle
    re.compile(r"[^/_]+(?:_LATE)?_[0-9]+_[0-9]+_"),  # Canvas
    re.compile(r"[^/]+?_attempt_[0-9-]{19}_"),  # Blackboard
]
"""What an LMS writes before a name; all behind it the student has chosen."""
READING = (
    *(zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError),
    *(NotImplementedError, ValueError, MemoryError),
)
"""What a zip that is broken, encrypted or forged raises."""


NAMELESS = (
    "as its name tells no student and no time (`python -m autograder submit` writes "
    "them; or put it yourself into submitted/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb)"
)


class LeftOut(Exception):
    """The error for a file that is not unpacked, with the reason."""


class Names(FileNameCollectorPlugin):
    """Read from a file's name what `python -m autograder submit` has written there."""

    @default("named_regexp")
    def _pattern(self) -> str:
        return pattern().pattern


class Notebooks(ExtractorPlugin):
    """Take the notebooks out of what was delivered, and nothing else.

    No archive in an archive, and no more of a file or a sender than can be graded.
    Where two senders claim to be one student, or one sender to be two students,
    nobody's file is collected: all go to `disputed/`.
    """

    def extract(self, archive_path: str, extracted_path: str) -> None:
        """Fill `extracted_path` with the notebooks of `archive_path`."""
        archive, into = Path(archive_path), Path(extracted_path)
        self.places: dict[str, dict[str, list[Path]]] = defaultdict(dict)
        self.room = OF_ALL
        self.used: dict[str, int] = defaultdict(int)
        for number, path in enumerate(sorted(archive.rglob("*"))):
            name = str(path.relative_to(archive))
            if path.is_symlink():
                self._pass_over("as it is a link", name)
            elif not path.is_file():
                continue
            elif path.suffix.lower() == ".zip":
                self._unzip(path, name, into / str(number))
            elif path.suffix == ".ipynb":
                with path.open("rb") as file:
                    self._keep(name, _sender(name), file, 0, into / str(number))
            elif path.suffix.lower() in PACKED:
                self._pass_over("as it is no zip", name)
        self._leave_out_the_large()
        self._set_disputed_aside(into.with_name("disputed"))

    def _unzip(self, path: Path, name: str, into: Path) -> None:
        by_lms = name.startswith(f"{BY_LMS}/")
        try:
            if path.stat().st_size > OF_A_SENDER and not by_lms:
                raise LeftOut(f"more than {OF_A_SENDER} bytes for one sender")
            with zipfile.ZipFile(path) as archive:
                items = archive.infolist()
                if len(items) > ENTRIES:
                    raise LeftOut(f"it has more than {ENTRIES} files")
                for number, item in enumerate(items):
                    sender = _sender(item.filename, by_lms) if by_lms else ""
                    self._take(archive, item, sender or name, into / str(number))
        except (*READING, LeftOut) as error:
            self.log.error("%s cannot be unpacked: %s", one_line(name), error)

    def _take(
        self, archive: zipfile.ZipFile, item: zipfile.ZipInfo, sender: str, to: Path
    ) -> None:
        """Take one file of a zip; a bad one costs the others nothing."""
        name = item.filename
        if Path(name).suffix.lower() in PACKED:
            self._pass_over(
                f"an archive in {Path(str(archive.filename)).name}: unpack it and put "
                "what it holds into the archive folder",
                name,
            )
        if not name.endswith(".ipynb"):
            return
        if item.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            self._pass_over("for how it is compressed", name)
            return
        try:
            with archive.open(item) as file:
                self._keep(name, sender, file, item.compress_size, to)
        except READING as error:
            self._pass_over(f"as it cannot be read ({error})", name)

    def _keep(
        self, name: str, sender: str, file: IO[bytes], packed: int, folder: Path
    ) -> None:
        """Write one notebook, under the last part of its name."""
        matched = pattern().fullmatch(name)
        if matched is None or not moment(matched["timestamp"]):
            self._pass_over(NAMELESS, name)
            return
        try:
            data = self._read(sender, file, packed)
        except LeftOut as error:
            self._pass_over(f"as {error}", name)
            return
        folder.mkdir(parents=True)
        place = folder / name[matched.end("sender") :]
        place.write_bytes(data)
        senders = self.places[matched["student_id"]]
        senders.setdefault(sender, []).append(place)

    def _read(self, sender: str, file: IO[bytes], packed: int) -> bytes:
        """Return a file's bytes, counted as they come, whatever its archive says of
        them.

        One byte more than can be graded is read, so that grading says it is too large.
        """
        if sender and self.used[sender] > OF_A_SENDER:
            raise LeftOut("its sender has sent too much")
        if self.room <= 0:
            raise LeftOut(f"all together unpack to more than {OF_ALL} bytes")
        data = file.read(MAX_BYTES + 1)
        self.used[sender] += len(data)
        self.room -= len(data)
        if packed and len(data) > max(RATIO * packed, 10**6):
            raise LeftOut(f"each of its bytes becomes more than {RATIO}")
        return data

    def _leave_out_the_large(self) -> None:
        """Take away all that a sender of too much has sent."""
        for sender, used in self.used.items():
            if sender and used > OF_A_SENDER:
                self._pass_over(f"more than {OF_A_SENDER} bytes of one sender", sender)
                for senders in self.places.values():
                    for place in senders.pop(sender, []):
                        place.unlink()

    def _set_disputed_aside(self, folder: Path) -> None:
        students = self._students()
        for student in sorted(self._disputed(students)):
            folder.mkdir(exist_ok=True)
            for sender, places in self.places[student].items():
                sender_line = one_line(sender)
                self.log.error(
                    "%r hands in as %s: see %s", sender_line, student, folder
                )
                for place in places:
                    shutil.move(place, folder / f"{place.parent.name}_{place.name}")
        if any(len(names) > 1 for names in students.values()):
            self.log.error(
                "a sender hands in for one student only. Put a zip that the LMS itself "
                "has made into archive/%s/, and collect again with --force",
                BY_LMS,
            )

    def _students(self) -> dict[str, set[str]]:
        """Return the students of each sender; a file of a mail has no sender."""
        by_student: dict[str, set[str]] = defaultdict(set)
        for student, senders in self.places.items():
            for sender in filter(None, senders):
                by_student[sender].add(student)
        return by_student

    def _disputed(self, students: dict[str, set[str]]) -> set[str]:
        """Return the students with two senders, a shared sender, or two spellings."""
        alike: dict[str, list[str]] = defaultdict(list)
        for student in self.places:
            alike[student.casefold()].append(student)
        return {
            student
            for student, senders in self.places.items()
            if len(senders) > 1
            or len(alike[student.casefold()]) > 1
            or any(len(students[sender]) > 1 for sender in senders if sender)
        }

    def _pass_over(self, why: str, name: str) -> None:
        self.log.error("passed over, %s: %s", why, one_line(name))


def _sender(name: str, by_folder: bool = False) -> str:
    """Return the sender of a file, by what an LMS has written before its name.

    Of an LMS that is not known it is all before the name that `submit` gave it;
    by_folder: its first folder, where it has one.
    """
    for at in [0, *(slash.end() for slash in re.finditer("/", name))]:
        ends = [slash.end() for p in PREFIXES if (slash := p.match(name, at))]
        if ends:
            return name[: min(ends)]
    if by_folder and "/" in name:
        return name.partition("/")[0]
    slash = pattern().fullmatch(name)
    return slash["sender"] if slash else ""
