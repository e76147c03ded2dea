"""A Python interpreter of our own beside this one, for a fork server or a rank."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

_PACKAGE_PARENT = str(Path(__file__).resolve().parents[3])


def python(
    module: str, sock: socket.socket, *args: str, **kwargs: Any
) -> subprocess.Popen:
    """Call a module's `main(fd, *args)` in a fresh interpreter and session."""
    fd = sock.fileno()
    begin = (
        f"import sys; sys.path.insert(0, {_PACKAGE_PARENT!r}); "
        f"from {module} import main; main({fd}, *{args!r})"
    )
    environment = os.environ | {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", begin],  # -P: the reader's folder is no library
        stdin=subprocess.DEVNULL,
        pass_fds=[fd],
        start_new_session=True,
        env=environment,
        **kwargs,
    )
