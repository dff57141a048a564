"""Copies blocks of a document, each of another size, from where a C library has put them."""

import ctypes
import random

document = ctypes.create_string_buffer(1 << 20)


def block(size: int) -> bytes:
    found = ctypes.cast(document, ctypes.POINTER(ctypes.c_ubyte * size))
    return bytes(found.contents)


def handler(event: object, context: object) -> int:
    return sum(len(block(random.randrange(1, 1 << 20))) for _ in range(8))
