"""nbgrader's configuration for all accounts of a hub; it belongs in /etc/jupyter.

The instructor's clone has a `nbgrader_config.py` of its own, which adds to this one.
"""

c = get_config()  # type: ignore[name-defined]  # noqa: F821 - nbgrader defines it

c.CourseDirectory.course_id = "collectives_lab"
c.Exchange.root = "/srv/nbgrader/exchange"
