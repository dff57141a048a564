"""What a function is named by, what is said when it cannot be found, and the interpreter that runs it."""

import dataclasses
import os
import shutil
import sys
import venv
from pathlib import Path

import pytest
from truemem_workbench.local import BadInput, Function, Settings
from truemem_workbench.local.configuration.function import OUR_VERSION, with_project_python
from truemem_workbench.local.processes.process import ordinary
from truemem_workbench.support import runtime_client
from truemem_workbench.target.target import line_of

from tests.local.conftest import APP, BOOTSTRAP, FUNCTIONS, HANDLER, Local, LocalRun, run

SOURCE = """
import os
from somewhere import imported
LIMIT = 3
_private = 1
def main(event, context): ...
async def late(event, context): ...
made = lambda event, context: 1
a, (b, *c) = 1, (2, 3)
annotated: object = None
if os.name == "posix":
    def conditional(event, context): ...
try:
    def tried(event, context): ...
except ImportError:
    def excepted(event, context): ...
class Handler:
    def method(self): ...
"""


NAMES = ("main", "late", "made", "imported", "b", "c", "annotated", "conditional", "tried", "excepted", "Handler")
UNKNOWN = (
    "raise SystemExit\ndef handler(event, context): ...",
    "from somewhere import *",
    "globals()['handler'] = print",
)


@pytest.mark.parametrize(("name", "text"), [(name, SOURCE) for name in NAMES] + [("handler", text) for text in UNKNOWN])
def test_any_name_of_the_module_may_be_a_handler(tmp_path: Path, name: str, text: str) -> None:
    """The code is not run. Where names cannot be known, all are believed."""
    path = tmp_path / "code.py"
    path.write_text(text)
    function = Function.from_spec(f"{path}:{name}")
    assert function.handler == f"code.{name}"
    assert function.command[1:] == ("-m", "awslambdaric", f"code.{name}")
    assert function.task_root == tmp_path


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "code.py:handler",
            "def main(e, c): ...\ndef lambda_handler(e, c): ...",
            r"no function `handler` in .*code\.py \(found: main, lambda_handler\)\. Try .*code\.py:lambda_handler",
        ),
        ("code.py:mian", "def main(e, c): ...\ndef other(e, c): ...", r"Try .*code\.py:main"),
        ("code.py:handler", "LIMIT = 3", r"\(found: none\)\. Try .*code\.py:handler"),
        ("code.py", "def main(e, c): ...", r"code\.py names no handler \(found: main\)\. Try .*code\.py:main"),
        ("code.py:handler", "def main(:", r"code\.py line 1: .*\. Python 3\.\d+ cannot parse it: fix that"),
        ("other.py:handler", "", r"no file .*other\.py\. Try PATH/app\.py:handler"),
        ("other", "", r"no file .*other\. Try PATH/app\.py:handler, or the path of a bootstrap executable"),
        ("code.txt:handler", "", r"code\.txt cannot be imported as a Python module\. Try a name like app\.py"),
        (
            "code.rb:Orders.handle",
            "",
            r"truemem starts .* such as `exec aws_lambda_ric code\.Orders\.handle`",
        ),
        ("code.sh", "#!/bin/sh", r"code\.sh is not executable\. Try chmod \+x .*code\.sh"),
        ("index.mjs", "export const handler = 1", r"index\.mjs names no handler\. Try .*index\.mjs:handler"),
    ],
)
def test_an_unusable_spec_is_refused_in_one_line(tmp_path: Path, name: str, text: str, says: str) -> None:
    path = tmp_path / name.partition(":")[0]
    if not name.startswith("other"):
        path.write_text(text)
    with pytest.raises(BadInput, match=says) as error:
        Function.from_spec(str(tmp_path / name)).checked()
    assert "\n" not in str(error.value)


# --- the interpreter: the project's own, with AWS's runtime client from ours ---------------------------------------

USES_DEPENDENCY = """
import sys
import dependency
def handler(event, context):
    if event.get("later"):
        import absent.part
    return [sys.executable, sys.path[0], dependency.NAME]
"""
STAND_IN = Path(runtime_client.__file__)


def environment(folder: Path, **modules: str) -> Path:
    """A virtual environment with these modules. Returns its interpreter."""
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    for name, text in modules.items():
        (packages / f"{name}.py").write_text(text)
    return folder / "bin" / "python"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    folder = tmp_path / "project" / "src"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(USES_DEPENDENCY)
    return folder / "app.py"


def python_of(app: Path, asked: str | None = None) -> Path | None:
    return with_project_python(Function.from_spec(f"{app}:handler"), asked)[0].python


def test_a_handler_has_its_environments_dependencies(app: Path, local_run: LocalRun) -> None:
    python = environment(app.parents[1] / ".venv", dependency="NAME = 'theirs'")
    done = local_run("app.py:handler", "--event", "{}", cwd=app.parent)
    assert done.returncode == 0, done.stderr
    assert f'response | ["{python}", "{app.parent}", "theirs"]' in done.stdout
    assert f"note: the handler runs with {python} (Python 3." in done.stderr


def test_nearest_environment_then_active_one_then_ours(
    app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert python_of(app) == Path(sys.executable)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    for folder in (tmp_path / "active", app.parents[1] / ".venv", app.parent / ".venv"):
        python = environment(folder)
        assert python_of(app) == python
    assert python_of(app, str(tmp_path / "active")) == tmp_path / "active" / "bin" / "python"
    assert python_of(app, sys.executable) == Path(sys.executable)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_an_environment_of_another_user_is_not_run(app: Path) -> None:
    environment(app.parents[1] / ".venv")
    os.chown(app.parents[1] / ".venv", 12345, 12345)
    assert python_of(app) == Path(sys.executable)


def test_the_client_works_without_its_c_part(app: Path) -> None:
    """As with another minor version of Python, whose C part our environment does not have."""
    environment(app.parent / ".venv", runtime_client=STAND_IN.read_text())
    shutil.copy(APP, app)
    function, _ = with_project_python(Function.from_spec(f"{app}:handler"))
    with Local(function, Settings()) as local:
        answers = [local.invoke(event).payload for event in ({"a": "ü"}, {"raise": "boom"}, {"environment": 1})]
    assert answers[0]["event"] == {"a": "ü"}
    assert (answers[1]["errorType"], answers[1]["errorMessage"]) == ("ValueError", "boom")
    assert answers[2]["PATH"].startswith(f"{app.parent}/.venv/bin:")


def other_python() -> str | None:
    """An interpreter of another version, from pyenv or from the path."""
    for name in [f"python3.{minor}" for minor in range(14, 9, -1) if minor != sys.version_info.minor]:
        if found := [*map(str, Path.home().glob(f".pyenv/versions/*/bin/{name}")), shutil.which(name)][0]:
            return found
    return None


@pytest.mark.skipif(other_python() is None, reason="no other version of Python from 3.10 on")
def test_another_version_of_python_runs_the_handler(app: Path, local_run: LocalRun) -> None:
    shutil.copy(APP, app)
    done = local_run(f"{app}:handler", "--event", '{"a": 1}', "--invocations", "2", "--python", str(other_python()))
    assert done.stdout.count('{"event": {"a": 1}') == 2, done.stderr
    assert "a part of it is replaced" in done.stderr


def test_a_missing_module_is_named_with_the_interpreter(app: Path, local_run: LocalRun) -> None:
    python = environment(app.parent / ".venv", dependency="NAME = 'theirs'")
    fix = f"{python} has no module 'absent'. Try {python} -m pip install absent"
    done = local_run(f"{app}:handler", "--event", '{"later": 1}', "--invocations", "2")
    assert done.stderr.count(f"note: {fix}, or --python PATH") == 1


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("nowhere", "no interpreter nowhere. Try --python PATH/bin/python"),
        ("/bin/ls", "/bin/ls cannot load AWS's runtime client"),
        ("notes.txt", "no permission to run"),
        ("broken", "cannot load AWS's runtime client (ImportError: no libc)"),
    ],
)
def test_an_interpreter_that_cannot_be_used(app: Path, monkeypatch: pytest.MonkeyPatch, asked: str, says: str) -> None:
    monkeypatch.chdir(app.parent)
    Path("notes.txt").write_text("")
    environment(Path("broken"), runtime_client="raise ImportError('no libc')")
    with pytest.raises(BadInput) as error:
        python_of(app, asked)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.raises(BadInput, match=r"bootstrap is no Python handler\. Leave --python out"):
        with_project_python(Function.from_spec(str(BOOTSTRAP)), asked)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
def test_an_interpreter_without_permission_is_refused(app: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "hidden", dependency="NAME = 1")
    app.write_text("def handler(event, context): ...")
    home = Path("/tmp") / f"truemem-app-{os.getpid()}"
    shutil.copytree(app.parent, home)
    python.parent.chmod(0o700)
    try:
        unprivileged = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": home}
        refused = run("app.py:handler", "--event", "{}", "--python", str(python), **unprivileged)
        as_root = run("app.py:handler", "--event", "{}", "--no-sidecar", "--python", str(python), cwd=home)
    finally:
        shutil.rmtree(home)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"truemem local run: no permission to run {python}. Try chmod o+rx")
    assert as_root.returncode == 0
    assert f"note: processes run as root: uid {ordinary().uid} cannot read {python}." in as_root.stderr


def test_syntax_of_a_newer_python_is_left_to_that_python(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text("def newer[T](it: T) -> T: return it\nthat is no Python\ndef handler(e, c): ...\n")
    function = Function.from_handler(f"{path}:handler")
    with pytest.raises(BadInput, match=r"code\.py line \d"):
        function.checked()
    with pytest.raises(BadInput):
        function.standing_for("python3.15").checked()
    newer = dataclasses.replace(function, python_version=f"3.{sys.version_info.minor + 1}")
    assert newer.checked() is newer
    assert line_of(path, "handler") is None


# --- the runtime that it stands for: AWS's client in Python goes by AWS_EXECUTION_ENV ------------------------------

POLLING = FUNCTIONS / "polling.py"


@pytest.mark.parametrize(
    ("runtime", "says", "by_thread"),
    [
        (None, "AWS_Lambda_python3.13", True),
        ("python3.11", "AWS_Lambda_python3.11", False),
        ("python3.12", "AWS_Lambda_python3.12", True),
    ],
)
def test_the_client_polls_as_on_lambda(runtime: str | None, says: str, by_thread: bool) -> None:
    function = Function.from_handler(f"{POLLING}:handler")
    if runtime is not None:
        function = function.standing_for(runtime)
    with Local(function, Settings()) as local:
        answers = [local.invoke({}).payload for _ in range(2)]
        started = local.of_type("initStart")[0]["runtimeVersion"]
    polled = {"runtime": says, "python": OUR_VERSION, "byThread": by_thread, "threadsNow": 1}
    assert answers == [polled] * 2
    assert started == f"python:{OUR_VERSION}"  # what really ran


def test_a_chosen_interpreter_names_its_own_version(app: Path) -> None:
    ours, _ = with_project_python(Function.from_spec(f"{app}:handler"))
    asked, _ = with_project_python(ours, sys.executable)
    environment(app.parent / ".venv")
    found, _ = with_project_python(ours)
    assert (ours.runtime, ours.runs_on) == ("python3.13", f"python{OUR_VERSION}")
    assert {asked.runtime, asked.runs_on, found.runtime, found.runs_on} == {f"python{OUR_VERSION}"}


def test_runtime_names_a_version_of_python(local_run: LocalRun) -> None:
    handler = f"{POLLING}:handler"
    done = local_run(handler, "--event", "{}", "--no-sidecar", "--runtime", "python3.10", "--python", sys.executable)
    assert f'{{"runtime": "AWS_Lambda_python3.10", "python": "{OUR_VERSION}", "byThread": false' in done.stdout


@pytest.mark.parametrize(
    ("spec", "runtime", "says"),
    [
        (HANDLER, "python3.9", "'python3.9' is not one of 'python3.10', 'python3.11'"),
        (HANDLER, "nodejs24.x", f"{HANDLER} is no Node.js handler"),
        (str(BOOTSTRAP), "python3.13", f"--runtime python3.13: {BOOTSTRAP} is no Python handler. Leave --runtime out"),
        ("index.mjs:handler", "python3.13", "--runtime python3.13: index.mjs:handler is no Python handler."),
    ],
)
def test_a_runtime_of_another_language_is_refused(local_run: LocalRun, spec: str, runtime: str, says: str) -> None:
    done = local_run(spec, "--event", "{}", "--runtime", runtime)
    assert done.returncode == 2
    assert done.stderr.startswith("truemem local run: ")
    assert says in done.stderr


def test_a_program_in_python_is_told_how_it_is_started(tmp_path: Path) -> None:
    path = tmp_path / "boot.py"
    path.write_text("#!/usr/bin/python3\napi = 1\n")
    path.chmod(0o755)
    with pytest.raises(BadInput, match=r"if it is a program, a copy of it without \.py"):
        Function.from_spec(str(path))
