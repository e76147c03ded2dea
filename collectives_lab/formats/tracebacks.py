"""Tracebacks in a log, and whether another rank's end has brought them about."""

from __future__ import annotations

import re
from collections import deque

from collectives_lab.formats.log_facts import Fact
from collectives_lab.formats.stacks import Frame
from collectives_lab.formats.user_line import user_line

CONSEQUENCES = re.compile(
    r"connection (was )?(closed|reset|refused|aborted)|broken pipe|timed? ?out|"
    r"remote process|ncclRemoteError|ncclSystemError|watchdog|ChildFailedError|"
    r"SignalException|ProcessExitedException|ProcessRaisedException|KeyboardInterrupt|"
    r"\bsocket\b|\bpeer\b|SystemExit: 0|stopped because rank|"
    r"Detected mismatch between collectives",
    re.IGNORECASE,
)
"""What an exception says that another rank's end, or a wait, has brought about."""

OTHER_NETWORKS = re.compile(
    r"urllib|requests/|http/|httpx|aiohttp|botocore|boto3|fsspec|s3fs|gcsfs|/ssl\.py|"
    r"huggingface_hub|wandb|mlflow|psycopg|redis|pymongo|paramiko|torch/utils/data"
)
"""Files in which a connection or a time-out is not that of the ranks."""

_FRAME = re.compile(r'^\s+File "([^"]+)", line (\d+)(?:, in (.*))?')


class Traceback:
    """The frames of a traceback, until the line that names the exception."""

    def __init__(self, rank: int | None, path: str, by_torch: bool):
        self.rank = rank
        self.path = path
        self.by_torch = by_torch
        self.frames: deque[Frame] = deque(maxlen=60)

    def take(self, line: str) -> Fact | None:
        """Take a line; the one that is not indented ends the traceback."""
        if match := _FRAME.match(line):
            frame = Frame(match[3] or "", match[1], int(match[2]))
            self.frames.appendleft(frame)
        if not line.strip() or line[0].isspace():
            return None
        text = line.strip()[:300]
        where = user_line((f.file, f.line) for f in self.frames)
        of_ranks = any("torch/distributed" in f.file for f in self.frames)
        elsewhere = any(OTHER_NETWORKS.search(f.file) for f in self.frames)
        follows = bool(CONSEQUENCES.search(text)) and (of_ranks or not elsewhere)
        return Fact(
            *("exception", self.rank, text, where),
            follows=follows,
            uncaught=self.by_torch,
            frames=tuple(self.frames),
            path=self.path,
        )
