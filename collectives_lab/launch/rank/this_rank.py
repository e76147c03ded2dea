"""The rank that this process is, if it is one."""

from typing import Any

membership: Any = None
"""Its `process_group.Membership`; None in a process that is no rank."""
