"""Sessions: how one is loaded, and which are kept."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import onnxruntime
from settings import Settings
from sources import Models

PROVIDERS = ["CPUExecutionProvider"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Cache(Protocol[T_co]):
    """Model id in, loaded model out."""

    def __call__(self, model: int, /) -> T_co: ...

    def cached(self) -> int:
        """How many are held now."""
        ...


class EvictAfterLoad(Generic[T]):
    """`functools.lru_cache`, as in the incident: loads first, evicts after. For a moment it holds one too many."""

    def __init__(self, load: Callable[[int], T], size: int) -> None:
        self._load = functools.lru_cache(maxsize=size)(load)

    def __call__(self, model: int, /) -> T:
        return self._load(model)

    def cached(self) -> int:
        return self._load.cache_info().currsize


class PopBeforeLoad(Generic[T]):
    """Least recently used, evicted before the next is loaded: old and new never coexist.

    Our own, because `functools.lru_cache` calls the function before it makes room, and that order cannot be changed.
    The price: when a load fails, the evicted one is already gone.
    """

    def __init__(self, load: Callable[[int], T], size: int) -> None:
        self._load = load
        self._size = size
        self._held: OrderedDict[int, T] = OrderedDict()

    def __call__(self, model: int, /) -> T:
        if model in self._held:
            self._held.move_to_end(model)
            return self._held[model]
        while self._held and len(self._held) >= self._size:
            self._held.popitem(last=False)
        loaded = self._load(model)
        if self._size:
            self._held[model] = loaded
        return loaded

    def cached(self) -> int:
        return len(self._held)


def session_cache(settings: Settings, load: Callable[[int], T]) -> Cache[T]:
    """The cache that `settings` ask for, around `load`."""
    kind = PopBeforeLoad if settings.pop_before_load else EvictAfterLoad
    return kind(load, settings.cache_size)


def open_session(settings: Settings, models: Models, model: int) -> Any:
    """An `onnxruntime.InferenceSession` of one model. Raises StoreError, BucketError."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = settings.intra_op_threads
    # Threads that spin while they wait are frozen spinning, and burn the CPU of the next invocation's start.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if settings.load_from == "bytes":
        return onnxruntime.InferenceSession(models.content(model), options, providers=PROVIDERS)
    with models.file(model) as path:
        return onnxruntime.InferenceSession(str(path), options, providers=PROVIDERS)
