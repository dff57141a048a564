"""The /tmp of an environment's processes: their own, where this machine permits it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local.processes.cgroups import NotPermitted
from truemem_workbench.local.processes.tmp import Tmp, holding, named_in

from tests.local.conftest import FUNCTIONS, RUN, Start

IN_TMP = FUNCTIONS / "in_tmp.py"
EVENT = ["--no-sidecar", "--json", "--event", '{"kib": 100}']
NOBODY = 65534
NEEDED = {path.parts[2] for path in (IN_TMP, Path(sys.prefix)) if path.is_relative_to("/tmp")}
"""In this machine's /tmp, where this checkout or its environment is there."""
SAID = "files that the function writes to /tmp itself, and not to TMPDIR, are not counted here"


def permitted(as_user: list[str]) -> bool:
    """Whether such a user may make mounts of its own on this machine."""
    own = ["--user", "--map-current-user"] if as_user or os.geteuid() else []
    command = [*as_user, "unshare", *own, "--keep-caps", "--mount", "mount", "--rbind", "/var/tmp", "/tmp"]
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


needs_mounts = pytest.mark.skipif(not permitted([]), reason="this user may not make mounts on this machine")
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
UNABLE = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
"""As root is in a container."""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder in /tmp with the function, which every user may read."""
    with tempfile.TemporaryDirectory(prefix="truemem-test-", dir="/tmp") as name:
        shutil.copy(IN_TMP, name)
        Path(name).chmod(0o755)
        yield Path(name)


def ran(home: Path, as_user: list[str]) -> tuple[list[Any], list[str]]:
    """The answers of two invocations, and the notices."""
    command = [*as_user, *RUN, f"{home}/in_tmp.py:handler", *EVENT, "--invocations", "2"]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    lines = list(map(json.loads, done.stdout.splitlines()))
    answers = [line["response"]["payload"] for line in lines if "response" in line]
    return answers, [line["notice"] for line in lines if "notice" in line]


@needs_mounts
def test_each_environment_has_a_tmp_of_its_own(start: Start) -> None:
    marker = Path(tempfile.mkdtemp(prefix="truemem-test-", dir="/tmp"))
    first, second = start(IN_TMP), start(IN_TMP)
    answers = [each.invoke({"kib": 1024}).payload for each in (first, first, second)]
    marker.rmdir()
    names = [{*each["before"]} - NEEDED for each in answers]
    assert names == [set(), {f"left-{len(NEEDED)}"}, set()]
    assert first.tmp_kib() == pytest.approx(2048, abs=20)
    assert second.tmp_kib() == pytest.approx(1024, abs=20)
    assert str(first.environment_dir) not in Path("/proc/self/mountinfo").read_text()


@needs_mounts
def test_tmp_outlives_a_reset_and_is_emptied_for_another(start: Start) -> None:
    local = start(IN_TMP)
    local.finish({"kib": 100}, tenant_id="one")
    os.kill(local.processes()["runtime"], signal.SIGKILL)
    local.finish({"kib": 100}, tenant_id="one")  # it fails, and resets
    after_reset = local.finish({"kib": 100}, tenant_id="one").payload["before"]
    assert [name for name in after_reset if name.startswith("left-")]
    other = local.finish({"kib": 100}, tenant_id="two").payload["before"]
    assert not [name for name in other if name.startswith("left-")]


@needs_mounts
def test_what_the_code_folder_links_to_stays(start: Start, home: Path, tmp_path: Path) -> None:
    shutil.copy(IN_TMP, tmp_path)
    (home / "shared").write_text("content")
    (tmp_path / "data").symlink_to(home / "shared")
    found = start(tmp_path / "in_tmp.py").invoke({"kib": 0, "look": str(tmp_path / "data")}).payload["found"]
    assert found is True


@needs_mounts
def test_what_a_variable_names_stays_and_an_event_not(start: Start, home: Path) -> None:
    for name in ("shared", "not named"):
        (home / name).write_text("content")
    other = Path(tempfile.mkdtemp(prefix="truemem-test-", dir="/tmp"))
    local = start(IN_TMP, environment={"MODELS": f"file://{home}/shared", "HOME": "/tmp", "LATER": "/tmp/later"})
    found = [local.invoke({"kib": 0, "look": str(path)}).payload["found"] for path in (home / "not named", other)]
    other.rmdir()
    assert found == [True, False]
    kept = [notice for notice in local.notices if "is not counted" in notice]
    assert [notice.partition(",")[0] for notice in kept] == [f"MODELS names {home}"]


@needs_mounts
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a disk needs root")
def test_the_sidecar_says_nothing_of_the_machines_tmp() -> None:
    """Where that is a disk of its own, as on many."""
    mount = (
        "mount -t tmpfs none /mnt && for name in $0; do mkdir /mnt/$name && mount --rbind /tmp/$name /mnt/$name; done"
    )
    inside = ["unshare", "--mount", "sh", "-c", f'{mount}; mount --rbind /mnt /tmp && exec "$@"', " ".join(NEEDED)]
    always = ["--env", "TRUEMEM_RESOURCES=always", "--env", "TRUEMEM_DETAIL=always"]
    command = [*inside, *RUN, f"{IN_TMP}:handler", *always, "--json", "--event", '{"kib": 100}', "--invocations", "2"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=60, check=True)
    printed = [json.loads(line).get("log", {}).get("text", "") for line in done.stdout.splitlines()]
    resources = [json.loads(text)["resources"] for text in printed if text.startswith("{") and '"resources"' in text]
    assert resources
    assert not any("tmp" in each for each in resources)


@pytest.mark.parametrize("as_user", [[], AS_NOBODY], ids=["this user", "nobody"])
def test_an_ordinary_user_has_it_too(home: Path, as_user: list[str]) -> None:
    if (as_user and os.geteuid()) or not permitted(as_user):
        pytest.skip("such a user may not make mounts on this machine, or we cannot be it")
    answers, notices = ran(home, as_user)
    needed = {home.name, *NEEDED}
    assert [{*each["before"]} for each in answers] == [needed, {*needed, f"left-{len(needed)}"}]
    assert (answers[0]["tmpdir"], answers[0]["uid"] != 0) == ("/tmp", True)
    assert not any(SAID in notice for notice in notices)
    assert {path.name for path in home.iterdir()} <= {"in_tmp.py", "__pycache__"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up a permission that others never have")
def test_without_permission_the_run_says_so_once(home: Path) -> None:
    answers, notices = ran(home, UNABLE)
    left = [Path("/tmp", f"left-{len(answer['before'])}") for answer in answers]
    for path in left:
        path.unlink(missing_ok=True)
    assert home.name in answers[0]["before"]
    assert answers[0]["tmpdir"].startswith("/tmp/truemem-")
    assert sum(SAID in notice for notice in notices) == 1


def test_a_function_in_tmp_itself_is_not_hidden() -> None:
    with pytest.raises(NotPermitted, match="the function lies in /tmp itself"):
        holding([Path("/tmp")])


@pytest.mark.parametrize(
    "word",
    ["/tmp/{}", "/tmp/{}/models", "a=/tmp/{};b", "file:///tmp/{}", "/opt:/tmp/{}:/usr", "-Djava.io=/tmp/{}", "LINK/x"],
)
def test_a_word_names_what_is_there(home: Path, tmp_path: Path, word: str) -> None:
    (tmp_path / "link").symlink_to(home)
    assert home.name in named_in([word.format(home.name).replace("LINK", f"{tmp_path}/link")])


@pytest.mark.parametrize(
    "word", ["/tmp", "/tmp/", "/", "", "/tmp/not-there-", "/var/tmp/{}", "s3://bucket/tmp/{}", f"/tmp/{'x' * 5000}"]
)
def test_a_word_names_nothing_else(home: Path, word: str) -> None:
    assert named_in([word.format(home.name)]) == set()


def test_it_has_what_files_and_folders_take(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(bytes(1 << 20))
    (tmp_path / ".truemem-journal").write_bytes(bytes(1 << 20))
    (tmp_path / "link").symlink_to("/nowhere")
    tmp = Tmp(tmp_path)
    assert tmp.used_kib() == pytest.approx(1024, abs=20)
    assert Tmp(tmp_path / "nowhere").used_kib() == 0
    tmp.clear()
    assert not list(tmp_path.iterdir())


def test_without_util_linux_it_is_not_permitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotPermitted, match="no unshare or nsenter"):
        Tmp(tmp_path).cover([])
