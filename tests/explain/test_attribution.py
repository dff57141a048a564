"""What grows steadily, and what has only grown; and which files are the user's."""

import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from truemem_workbench.explain.attribution import OURS, Users, attribute, rising
from truemem_workbench.explain.run import looked_at

AT = list(range(10, 110, 10))


def test_a_straight_line_rises_a_filled_cache_or_a_step_does_not() -> None:
    assert rising(AT, [8192 * at for at in AT]) == 8192
    assert rising(AT, [8192 * min(at, 50) for at in AT]) == 0
    assert rising(AT, [0] * 5 + [10**6] * 5) == 0
    assert rising(AT[:3], [1, 2, 3]) == 0  # too few looks


def test_what_is_emptied_at_equal_distances_does_not_rise() -> None:
    accused = [
        (invocations, period)
        for invocations in range(130, 600, 7)
        for at in [looked_at(invocations)]
        for period in range(2, min(at[3], 60))
        if rising(at, [8192 * (each % period) for each in at]) > 0
    ]
    assert len(accused) <= 3, accused  # of 3,700


def test_what_is_emptied_beside_a_leak_hides_it_not() -> None:
    at = looked_at(210)
    assert rising(at, [8192 * each + 20_000 * (each % 7) for each in at]) == approx(8192, rel=0.3)


@given(st.integers(1, 5000))
def test_looks_follow_each_other(invocations: int) -> None:
    at = looked_at(invocations)
    assert at == sorted(at)
    assert len(set(at)) == len(at) or invocations < 3 * len(at)


@given(st.lists(st.integers(0, 10**9), max_size=10))
def test_nothing_rises_that_falls(values: list[int]) -> None:
    assert rising(AT, sorted(values, reverse=True) + [0] * (10 - len(values))) == 0


def test_growth_below_a_fifth_of_a_kib_is_left_out() -> None:
    stack = {"frames": [["/task/app.py", 3]], "bytes": [50 * at for at in AT], "blocks": AT}
    found = {"invocations": AT, "stacks": [stack], "containers": [], "types": []}
    assert attribute(found, Path("/task"), 0.1) == []


def test_what_the_workbench_keeps_is_not_told() -> None:
    client = [[f"{OURS}support/runtime_client.py", 42]]
    stacks = [{"frames": frames, "bytes": [8192 * at for at in AT]} for frames in (client, [["/lib/logging.py", 9]])]
    found = {"invocations": AT, "stacks": stacks, "containers": [], "types": []}
    assert [each.frame for each in attribute(found, Path("/task"), 16)] == [("/lib/logging.py", 9)]


def test_libraries_beside_the_users_code_are_not_the_users(tmp_path: Path) -> None:
    root = tmp_path / "site-packages" / "task"
    package = tmp_path / "package"
    package.mkdir()
    (package / "leaklib.py").write_text("KEPT = []\n")
    (package / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "leaklib"\nversion = "1"\n[tool.setuptools]\npy-modules = ["leaklib"]\n'
    )
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", root, package],
        check=True,
    )
    users = Users(root)
    assert not users.is_theirs((f"{root}/leaklib.py", 1))
    assert users.is_theirs((f"{root}/leaklib_of_ours.py", 1))
    assert users.is_theirs((f"{root}/app.py", 1))
    assert not users.is_theirs((f"{root}/vendored/site-packages/numpy/__init__.py", 1))


def test_code_in_the_root_of_an_image_is_the_users(tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    users = Users(tmp_path)
    assert users.is_theirs((f"{tmp_path}/app.py", 1))
    assert users.is_theirs((f"{tmp_path}/service/app.py", 1))
    assert not users.is_theirs((f"{tmp_path}/usr/local/lib/python3.13/json/decoder.py", 1))


def test_what_a_library_keeps_counts_for_the_users_line() -> None:
    """A place of the library grows now and then, by less than is reported; all of them below one line grow steadily."""
    stacks = [
        {
            "frames": [["/task/app.py", 3], ["/lib/client.py", line]],
            "bytes": [400 * (at > 10 * (line % 10)) for at in AT],
            "blocks": AT,
        }
        for line in range(100)
    ]
    (holder,) = attribute({"invocations": AT, "stacks": stacks, "containers": [], "types": []}, Path("/task"), 0.2)
    assert (holder.file, holder.line) == ("/task/app.py", 3)
    assert holder.kib == approx(400 * 100 / 10 / 10 / 1024, rel=0.2)
