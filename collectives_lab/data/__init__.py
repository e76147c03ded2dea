"""What the chapters read: topologies, logs and records, as files of the package.

A notebook travels without the folder that it lies in, to Colab for instance, so what it
reads comes with the package. Here you can ask where a file is, by `shipped`.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def shipped(name: str) -> Path:
    """Where a file or a folder lies that ships, `nccl_logs.txt` for instance.

    Raises FileNotFoundError with the names that there are.
    """
    path = FOLDER / name
    if not path.exists():
        files = (file for file in FOLDER.rglob("*") if file.is_file())
        found = sorted(file.relative_to(FOLDER).as_posix() for file in files)
        data = [file for file in found if not file.endswith((".py", ".pyc"))]
        raise FileNotFoundError(f"no {name!r} ships; need one of {', '.join(data)}")
    return path
