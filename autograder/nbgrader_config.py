"""nbgrader's configuration for this repository; it works from any directory.

Run nbgrader's commands in this folder, where they find this file. The course itself is
one floor up: `solutions/` is the source, `exercises/` the release, and all that belongs
to students stays in here, outside git.
"""

import os
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

# nbgrader calls `alembic`, which lies beside Python, environment activated or not.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
sys.path.insert(0, str(ROOT))
# nbgrader's queries are older than SQLAlchemy's idea of them; the result is right.
warnings.filterwarnings("ignore", message="Object of type <Submitted")

c = get_config()  # type: ignore[name-defined]  # noqa: F821 - nbgrader defines it

c.CourseDirectory.course_id = "collectives_lab"
c.CourseDirectory.root = str(ROOT)
c.CourseDirectory.db_url = f"sqlite:///{HERE / 'gradebook.db'}"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
for step in ("submitted", "autograded", "feedback", "solution", "source_with_tests"):
    setattr(c.CourseDirectory, f"{step}_directory", f"{HERE.name}/{step}")

c.ClearSolutions.code_stub = {"python": "raise NotImplementedError"}
c.ClearSolutions.text_stub = "*Your answer here.*"

# No kernel runs a submission: its file is rebuilt on the released notebook, and the
# verdict of the sealed wire is written into the test cells.
c.Autograde.exporter_class = "autograder.execute.SubmittedNotebook"
c.Autograde.sanitize_preprocessors = ["nbgrader.preprocessors.CheckCellMetadata"]
c.Autograde.autograde_preprocessors = [
    "nbgrader.preprocessors.LimitOutput",
    "autograder.execute.SaveVerdict",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]

# In a Jupyter server, formgrader's pages run no script but nbgrader's own.
if "jupyter_server.serverapp" in sys.modules:
    from autograder import formgrader

    formgrader.guard()

# In feedback, what is not gradable is called so, and has no score of 0.
c.GenerateFeedback.exporter_class = "autograder.page.Page"
c.GenerateFeedback.preprocessors = [
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
    "autograder.page.Scores",
]

# Who handed in by a mail gets no feedback by the exchange, and stops nobody else's.
c.ExchangeFactory.release_feedback = "autograder.giving_back.ReleaseFeedback"
# On a hub, what lies in the exchange as a student's own, and nothing by a link.
c.ExchangeFactory.collect = "autograder.exchange.Collect"

# Notebooks that `python -m autograder submit` has named, as an LMS delivers them.
c.ZipCollectApp.downloaded_directory = f"{HERE.name}/downloaded"
c.ZipCollectApp.extractor_plugin = "autograder.collecting.Notebooks"
c.ZipCollectApp.collector_plugin = "autograder.collecting.Names"
