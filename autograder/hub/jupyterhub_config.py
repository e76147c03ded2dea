"""JupyterHub's configuration for a course: each user is an account of the machine.

Root runs it: `jupyterhub --config jupyterhub_config.py`. The guide, section 3, has all
that belongs to it.
"""

import grp
from pathlib import Path

c = get_config()  # type: ignore[name-defined]  # noqa: F821 - JupyterHub defines it

# For this machine alone: a web server with a certificate stands before it.
c.JupyterHub.bind_url = "http://127.0.0.1:8000"

# The accounts of these Unix groups may log in, with their passwords. The server of each
# is a process of that account, in its home and with its rights.
c.JupyterHub.authenticator_class = "pam"
c.JupyterHub.spawner_class = "localprocess"
c.PAMAuthenticator.allowed_groups = {"students", "instructors"}
c.Spawner.default_url = "/lab"

STUDENTS = Path(__file__).resolve().parent / "students"


def without_formgrader(spawner) -> None:  # type: ignore[no-untyped-def]
    """Switch the formgrader off for all but instructors: students have no gradebook."""
    if spawner.user.name not in grp.getgrnam("instructors").gr_mem:
        spawner.environment["JUPYTER_CONFIG_PATH"] = str(STUDENTS)


c.Spawner.pre_spawn_hook = without_formgrader
