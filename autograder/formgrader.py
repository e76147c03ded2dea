"""Guard formgrader's pages: they show what students wrote, with an instructor's rights.

Each response carries a content security policy in which only the scripts of nbgrader's
own templates run; a submission is rendered by `page.Submission`.
"""

import base64
import hashlib
import secrets
from typing import Any

from jinja2 import Environment
from nbgrader.server_extensions.formgrader import handlers
from nbgrader.server_extensions.formgrader.base import BaseHandler
from tornado.web import HTTPError

from autograder.page import Nonces, Submission

BUTTONS = ("toggle_name(true);", "toggle_name(false);", "toggleAllNames()")
"""The templates' own attributes `onclick`."""
FILES = "sandbox; default-src 'none'; img-src 'self' data:"
"""The policy of a file that was handed in beside a notebook."""

_jupyters_policy = BaseHandler.content_security_policy
_open_course = handlers.FormgraderHandler.get


def guard() -> None:
    """Put the policy and the rendering in the place of nbgrader's."""
    BaseHandler.content_security_policy = property(_policy)
    BaseHandler.render = _render
    BaseHandler.exporter = property(_exporter)
    handlers.FormgraderHandler.get = _of_this_course


def _nonce(handler: Any) -> str:
    """Return a word that the scripts of this response, and nothing of a student's,
    have.
    """
    if not hasattr(handler, "_lab_nonce"):
        handler._lab_nonce = secrets.token_urlsafe(16)
    return handler._lab_nonce


def _policy(handler: Any) -> str:
    hashes = " ".join(map(_hash, BUTTONS))
    policy = (
        "default-src 'none'; "
        f"script-src 'nonce-{_nonce(handler)}' 'unsafe-hashes' {hashes}; "
        "style-src 'self' 'unsafe-inline'; font-src 'self'; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'"
    )
    if isinstance(handler, handlers.SubmissionFilesHandler):
        policy = FILES
    return f"{_jupyters_policy.fget(handler)}, {policy}"


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _render(handler: Any, name: str, **values: Any) -> str:
    """Return a page of nbgrader's, in which ids from the address are text."""
    loader = handler.settings["nbgrader_jinja2_env"].loader
    environment = Environment(loader=loader, autoescape=True, extensions=[Nonces])
    environment.globals["nonce"] = lambda: _nonce(handler)
    return environment.get_template(name).render(**values)


def _exporter(handler: Any) -> Submission:
    config = handler.settings["nbgrader_exporter"].config
    return Submission(_nonce(handler), handler.request.host, config=config)


def _of_this_course(handler: Any) -> None:
    # The address could name a folder of a student's, with a configuration that is run.
    if handler.get_argument("path", ""):
        raise HTTPError(403, "formgrader shows the course that it was started for")
    _open_course(handler)
