"""Data of the chapters: topologies, logs and records, as files of the package.

A notebook travels without its folder, to Colab for instance, so the files that it reads
come with the package. `shipped` returns the path of one.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def shipped(name: str) -> Path:
    """Return the path of a file or folder of the package, such as `nccl_logs.txt`.

    Raises FileNotFoundError with the names that there are.
    """
    path = FOLDER / name
    if not path.exists():
        files = (file for file in FOLDER.rglob("*") if file.is_file())
        names = sorted(file.relative_to(FOLDER).as_posix() for file in files)
        data = [name for name in names if not name.endswith((".py", ".pyc"))]
        raise FileNotFoundError(f"no {name!r} ships; need one of {', '.join(data)}")
    return path
