"""Which sessions are kept, and how many exist at the worst moment."""

import dataclasses
import weakref
from operator import neg
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from network import Shape
from sessions import EvictAfterLoad, PopBeforeLoad, open_session, session_cache
from settings import Settings
from sources import LocalModels
from store import ModelStore

CALLS = [0, 1, 2, 0, 3, 4, 1, 2, 5, 0, 5, 3]


def local(folder: Path) -> LocalModels:
    return LocalModels(ModelStore(folder, 2**30), Shape())


def most_alive(settings: Settings, calls: list[int]) -> int:
    """The most real sessions that ever existed at the same time."""
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    most = 0

    def load(model: int) -> Any:
        nonlocal most
        session = open_session(settings, local(settings.model_dir), model)
        alive.add(session)
        most = max(most, len(alive))
        return session

    cache = session_cache(settings, load)
    for model in calls:
        cache(model)
    assert cache.cached() <= settings.cache_size
    return most


@pytest.mark.parametrize("cache_size", [1, 3])
def test_pop_before_load_holds_no_session_too_many(model_dir: Path, cache_size: int) -> None:
    settings = Settings(cache_size=cache_size, pop_before_load=True, model_dir=model_dir)
    assert most_alive(settings, CALLS) == cache_size
    # without it: lru_cache makes room only after the next one is there
    assert most_alive(dataclasses.replace(settings, pop_before_load=False), CALLS) == cache_size + 1


@given(calls=st.lists(st.integers(0, 9), max_size=60), size=st.integers(0, 6))
def test_both_caches_keep_and_drop_the_same_models(calls: list[int], size: int) -> None:
    after, before = Mock(side_effect=neg), Mock(side_effect=neg)
    evict_after, pop_before = EvictAfterLoad(after, size), PopBeforeLoad(before, size)
    for model in calls:
        assert evict_after(model) == pop_before(model) == -model
        assert evict_after.cached() == pop_before.cached() <= size
    assert after.mock_calls == before.mock_calls


@pytest.mark.parametrize("load_from", ["bytes", "path"])
def test_a_loaded_session_needs_no_file(tmp_path: Path, load_from: Any) -> None:
    session = open_session(Settings(load_from=load_from, model_dir=tmp_path), local(tmp_path), 5)
    assert [value.shape for value in session.get_inputs()] == [["batch", 256]]
    (file,) = tmp_path.iterdir()
    assert file.name == "model-05-24x256.onnx"
    rows = np.ones((1, 256), dtype=np.float32)
    (before,) = session.run(None, {"input": rows})
    file.unlink()
    (after,) = session.run(None, {"input": rows})
    assert before.tolist() == after.tolist()
