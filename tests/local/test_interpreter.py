"""The interpreter that runs a handler: the project's own, with AWS's runtime client from ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from truemem_workbench.local import BadInput, Function
from truemem_workbench.local.configuration.interpreter import with_project_python
from truemem_workbench.local.processes.user import ordinary
from truemem_workbench.support import runtime_client

from tests.local.conftest import APP, BOOTSTRAP, RUN, run

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


def test_a_handler_has_the_dependencies_of_the_environment_above_it(app: Path) -> None:
    python = environment(app.parents[1] / ".venv", dependency="NAME = 'theirs'")
    done = run("app.py:handler", "--event", "{}", cwd=app.parent)
    assert done.returncode == 0, done.stderr
    assert f'response | ["{python}", "{app.parent}", "theirs"]' in done.stdout
    assert f"note: the handler runs with {python} (Python 3." in done.stderr


def test_the_nearest_environment_is_found_then_the_active_one_then_ours(
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
    for event, said in (
        ('{"a": "ü"}', '{"event": {"a": "\\u00fc"}'),
        ('{"raise": "boom"}', '{"errorMessage": "boom", "errorType": "ValueError"'),
        ('{"environment": 1}', f'"PATH": "{app.parent}/.venv/bin:'),
    ):
        done = run(f"{app}:handler", "--event", event, "--invocations", "2")
        assert done.stdout.count(said) == 2, done.stderr


def others() -> list[str]:
    """Interpreters of other versions, from pyenv or from the path."""
    names = [f"python3.{minor}" for minor in range(10, 15) if minor != sys.version_info.minor]
    pyenv = Path.home() / ".pyenv" / "versions"
    found = [next(map(str, pyenv.glob(f"*/bin/{name}")), None) or shutil.which(name) for name in names]
    return [python for python in found if python]


@pytest.mark.skipif(not others(), reason="no other version of Python from 3.10 on")
def test_another_version_of_python_runs_the_handler(app: Path) -> None:
    other = others()[-1]
    shutil.copy(APP, app)
    done = run(f"{app}:handler", "--event", '{"a": 1}', "--invocations", "2", "--python", other)
    assert done.stdout.count('{"event": {"a": 1}') == 2, done.stderr
    assert "a part of it is replaced" in done.stderr


def test_a_missing_module_is_told_once_with_the_interpreter(app: Path) -> None:
    python = environment(app.parent / ".venv", dependency="NAME = 'theirs'")
    fix = f"{python} has no module 'absent'. Try {python} -m pip install absent"
    done = run(f"{app}:handler", "--event", '{"later": 1}', "--invocations", "2")
    checked = subprocess.run(
        [*RUN[:-2], "check", f"{app}:handler", "--event", '{"later": 1}', "--invocations", "1", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.count(f"note: {fix}, or --python PATH") == 1
    assert checked.stdout.count(fix) == 1


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


def test_a_bootstrap_has_no_interpreter() -> None:
    with pytest.raises(BadInput, match=r"--python python3: bootstrap is no Python handler. Leave --python out"):
        with_project_python(Function.from_spec(str(BOOTSTRAP)), "python3")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
def test_no_permission_to_run_the_interpreter_is_told(app: Path, tmp_path: Path) -> None:
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
