"""Leaks beside libraries with native code and threads. The line that keeps is marked with its handler's name."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import threading
from typing import Any

import numpy
import onnxruntime
from onnxruntime.datasets import get_example

MODEL = get_example("sigmoid.onnx")
KEPT: list[Any] = []
MATRIX = numpy.random.default_rng(1).random((256, 256))
LIBC = ctypes.CDLL(None)
LIBC.malloc.restype = ctypes.c_void_p
shared = onnxruntime.InferenceSession(MODEL)
count = 0


def arrays(event: Any, context: object) -> None:
    scores = MATRIX @ MATRIX  # in BLAS's own threads
    KEPT.append(scores[:4].copy())  # arrays


def predictions(event: Any, context: object) -> None:
    (answer,) = shared.run(None, {"x": numpy.ones((3, 4, 5), numpy.float32)})
    KEPT.append((answer, numpy.ones(1000)))  # predictions


def sessions(event: Any, context: object) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    KEPT.append(onnxruntime.InferenceSession(MODEL, options))  # sessions


def steady(event: Any, context: object) -> None:
    (answer,) = onnxruntime.InferenceSession(MODEL).run(None, {"x": numpy.ones((3, 4, 5), numpy.float32)})
    scores = MATRIX @ MATRIX
    answer[0, 0, 0] = scores[0, 0]


def work() -> None:
    block = LIBC.malloc(8000)  # native_thread
    ctypes.memset(block, 1, 8000)


def native_thread(event: Any, context: object) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def native_forks(event: Any, context: object) -> None:
    """Leaks, and has a child process each time."""
    block = LIBC.malloc(8000)  # native_forks
    ctypes.memset(block, 1, 8000)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def aborts(event: Any, context: object) -> None:
    """Leaks, and its process crashes now and then."""
    global count  # noqa: PLW0603
    count += 1
    KEPT.append(numpy.ones(1000))  # aborts
    if count % 120 == 0:
        os.abort()


def files(event: Any, context: object) -> None:
    """Keeps mapped files."""
    with tempfile.TemporaryFile() as file:
        file.write(b"1" * 16384)
        file.flush()
        mapped = mmap.mmap(file.fileno(), 16384, access=mmap.ACCESS_READ)  # files
    KEPT.append(len(bytes(mapped)))
    KEPT.append(mapped)
