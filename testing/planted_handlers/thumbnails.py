import functools
import struct


@functools.lru_cache(maxsize=16)
def header(width, height):
    return struct.pack(">II", width, height)


def scaled(pixels, factor):
    # slot
    return pixels[::factor]


def handler(event, context):
    pixels = bytes(range(256)) * 100
    result = scaled(pixels, 4)
    # slot
    return {"bytes": len(header(80, 80) + result)}
