"""The model store: bounded, whole files only, and nothing dropped that is in use."""

import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store import ModelStore, StoreError

from tests.sample.conftest import SAMPLE

MIB = 2**20


def pieces(size: int) -> Iterable[bytes]:
    return [b"x" * size]


def name(number: int) -> str:
    return f"model-{number:02}-2x16.onnx"


def held(store: ModelStore) -> list[str]:
    return sorted(path.name for path in store.folder.iterdir())


def use(store: ModelStore, number: int, size: int) -> None:
    with store.use(name(number), size, lambda: pieces(size)) as path:
        assert path.stat().st_size == size


def test_a_file_is_made_once_and_found_from_then_on(tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "below" / "models", MIB)
    asked = []

    def make() -> Iterator[bytes]:
        asked.append(1)
        yield b"abc"
        yield b"def"

    for _ in range(2):
        with store.use(name(1), 6, make) as path:
            assert path.read_bytes() == b"abcdef"
    assert asked == [1]


def test_the_least_recently_used_files_are_dropped(tmp_path: Path) -> None:
    for number in (1, 2, 3, 1):
        use(ModelStore(tmp_path, 300), number, 100)

    store = ModelStore(tmp_path, 300)
    use(store, 4, 100)
    assert held(store) == [name(1), name(3), name(4)]
    use(store, 5, 200)
    assert held(store) == [name(4), name(5)]


def test_what_is_in_use_is_never_dropped(tmp_path: Path) -> None:
    store = ModelStore(tmp_path, 200)
    with store.use(name(1), 100, lambda: pieces(100)) as path:
        for number in (2, 3, 4):
            use(store, number, 100)
        assert path.exists()
        assert held(store) == [name(1), name(4)]
        with pytest.raises(StoreError) as caught:
            use(store, 5, 101)
    assert str(caught.value) == (
        f"{name(5)} of 0.0 MiB does not fit into {tmp_path}: 0.0 of 0 MiB are in use: raise MODEL_STORE_MIB"
    )
    use(store, 5, 200)
    assert held(store) == [name(5)]


@given(uses=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 100)), max_size=30))
def test_it_never_holds_more_than_its_bound(
    tmp_path_factory: pytest.TempPathFactory, uses: list[tuple[int, int]]
) -> None:
    store = ModelStore(tmp_path_factory.mktemp("store"), 250)
    for number, size in uses:
        use(store, number, size)
        assert sum(path.stat().st_size for path in store.folder.iterdir()) <= 250


def test_a_model_that_cannot_be_finished_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StoreError) as caught:
        use(ModelStore(tmp_path, 100), 1, 10)

    assert str(caught.value) == (
        f"cannot write to {tmp_path}: No space left on device:"
        " lower MODEL_STORE_MIB, or give the function more ephemeral storage"
    )
    assert list(tmp_path.iterdir()) == []


WRITER = """
import sys, store
from pathlib import Path
def pieces():
    yield b"x" * 60
    print("writing", flush=True)
    sys.stdin.read()
store.ModelStore(Path(sys.argv[1]), 100).add("model-01-2x16.onnx", 100, pieces())
"""


def test_only_leftovers_of_a_killed_write_are_dropped(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writer = subprocess.Popen(command, cwd=SAMPLE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        meanwhile = ModelStore(tmp_path, 100)
        (unfinished,) = held(meanwhile)
        assert unfinished.endswith(".part")
        writer.send_signal(signal.SIGKILL)
        writer.wait()

    store = ModelStore(tmp_path, 100)
    assert held(store) == []
    use(store, 1, 100)
    assert held(store) == [name(1)]
