"""How nbgrader's `zip_collect` unpacks what an LMS or a mail has delivered.

Put it into `downloaded/<assignment>/archive/`: notebooks, or zip files of them, named
by `python -m autograder submit`; what an LMS writes before such a name is the sender.
"""

import shutil
import zipfile
from collections import defaultdict
from pathlib import Path

from nbgrader.plugins import ExtractorPlugin
from nbgrader.utils import parse_utc

from autograder.handing_in import pattern
from autograder.notebook import MAX_BYTES

PACKED = (".zip", ".gz", ".tgz", ".bz2", ".xz", ".tar", ".rar", ".7z")


class Notebooks(ExtractorPlugin):
    """Take the notebooks out of what was delivered, and nothing else.

    No archive in an archive, and no more of a file than can be graded. Where two
    senders claim to be one student, nobody's file is collected: all go to `disputed/`.
    """

    def extract(self, archive_path: str, extracted_path: str) -> None:
        """Fill `extracted_path` with the notebooks of `archive_path`."""
        archive, into = Path(archive_path), Path(extracted_path)
        self.places: dict[str, dict[str, list[Path]]] = defaultdict(dict)
        for number, path in enumerate(sorted(archive.rglob("*"))):
            name = str(path.relative_to(archive))
            if path.suffix.lower() == ".zip":
                self._unzip(path, into / str(number))
            elif path.suffix == ".ipynb" and path.is_file():
                self._keep(name, "", path.read_bytes(), into / str(number))
            elif path.suffix.lower() in PACKED:
                self.log.error("passed over, as it is no zip: %s", name)
        self._set_disputed_aside(into.with_name("disputed"))

    def _unzip(self, path: Path, into: Path) -> None:
        try:
            with zipfile.ZipFile(path) as archive:
                for number, item in enumerate(archive.infolist()):
                    if item.filename.endswith(".ipynb"):
                        with archive.open(item) as file:
                            data = file.read(MAX_BYTES + 1)
                        self._keep(item.filename, path.name, data, into / str(number))
                    elif Path(item.filename).suffix.lower() in PACKED:
                        self.log.error(
                            "passed over, an archive in %s: unpack it and put what it "
                            "holds into the archive folder: %s",
                            path.name,
                            item.filename,
                        )
        except (
            zipfile.BadZipFile,
            OSError,
            RuntimeError,
            NotImplementedError,
        ) as error:
            self.log.error("%s cannot be unpacked: %s", path, error)

    def _keep(self, name: str, archive: str, data: bytes, folder: Path) -> None:
        """Write one notebook, under the last part of its name."""
        found = pattern().fullmatch(name)
        if found is None or not _is_moment(found["timestamp"]):
            self.log.error("passed over, for its name: %s", name)
            return
        folder.mkdir(parents=True)
        place = folder / name[found.end("sender") :]
        place.write_bytes(data)
        senders = self.places[found["student_id"]]
        senders.setdefault(found["sender"] or archive, []).append(place)

    def _set_disputed_aside(self, folder: Path) -> None:
        disputed = {s: found for s, found in self.places.items() if len(found) > 1}
        for student, senders in disputed.items():
            folder.mkdir(exist_ok=True)
            for sender, places in senders.items():
                self.log.error("%r hands in as %s: see %s", sender, student, folder)
                for place in places:
                    shutil.move(place, folder / f"{place.parent.name}_{place.name}")


def _is_moment(stamp: str) -> bool:
    """Whether nbgrader can read it; at one that it cannot, it collects nobody."""
    try:
        return bool(parse_utc(stamp))
    except (ValueError, OverflowError):
        return False
