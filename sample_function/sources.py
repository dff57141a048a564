"""Where models come from: this machine's folder, or a bucket. One that is missing is made on first use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from network import Shape, model_name
from onnx_file import model_chunks, model_size
from store import ModelStore

if TYPE_CHECKING:
    from bucket import Bucket
    from settings import Settings

PIECE = 1 << 20
"""Bytes of a download that are in memory at a time when it goes to a file."""


class Models(Protocol):
    """Model id in, its file or its bytes out. Raises StoreError, BucketError."""

    def content(self, model: int) -> bytes:
        """All of it in memory, as the incident had it."""
        ...

    def file(self, model: int) -> AbstractContextManager[Path]:
        """A file that stays there inside `with`."""
        ...


class LocalModels:
    """Models of the model store itself, without a bucket."""

    def __init__(self, store: ModelStore, shape: Shape) -> None:
        self._store = store
        self._shape = shape

    def content(self, model: int) -> bytes:
        with self.file(model) as path:
            return path.read_bytes()

    def file(self, model: int) -> AbstractContextManager[Path]:
        name, size = model_name(self._shape, model), model_size(self._shape, model)
        return self._store.use(name, size, lambda: model_chunks(self._shape, model))


class BucketModels:
    """Models of a bucket. One that the bucket lacks is made in the model store, and uploaded from there."""

    def __init__(self, bucket: Bucket, store: ModelStore, shape: Shape) -> None:
        self._bucket = bucket
        self._store = store
        self._shape = shape
        self._local = LocalModels(store, shape)

    def content(self, model: int) -> bytes:
        """Straight from the bucket with every call: the store is not asked."""
        name, size = model_name(self._shape, model), model_size(self._shape, model)
        with self._bucket.get(name, size) as body:
            if body is not None:
                return body.read()
        with self._made(model) as path:
            return path.read_bytes()

    @contextmanager
    def file(self, model: int) -> Iterator[Path]:
        """Downloaded into the store, a MiB at a time, unless it is there already."""
        name, size = model_name(self._shape, model), model_size(self._shape, model)
        if self._store.find(name, size) is None:
            with self._bucket.get(name, size) as body:
                if body is not None:
                    self._store.add(name, size, body.iter_chunks(PIECE))
            if body is None:
                with self._made(model) as path:
                    yield path
                return
        with self._local.file(model) as path:
            yield path

    @contextmanager
    def _made(self, model: int) -> Iterator[Path]:
        with self._local.file(model) as path:
            with path.open("rb") as file:
                self._bucket.put(path.name, file)
            yield path


def open_models(settings: Settings) -> Models:
    """What `settings` ask for. With a bucket: boto3 is imported and its client made, once. Raises BucketError."""
    store = ModelStore(settings.model_dir, settings.model_store_mib << 20)
    if settings.model_bucket is None:
        return LocalModels(store, settings.shape)
    from bucket import Bucket

    return BucketModels(Bucket(settings.model_bucket, settings.model_prefix), store, settings.shape)
