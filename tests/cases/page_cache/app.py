"""Replaces a file of 200 MiB piece by piece, and reads what it wrote."""

import itertools
import os
import pathlib
import tempfile

place = pathlib.Path(tempfile.gettempdir()) / "archive"
numbers = itertools.count()


def handler(event: object, context: object) -> int:
    number = next(numbers)
    with place.open("r+b" if place.exists() else "w+b") as file:
        file.seek(number % 50 * 4_194_304)
        file.write(os.urandom(65_536) * 64)
        file.flush()
        os.fsync(file.fileno())
        file.seek(-4_194_304, os.SEEK_CUR)
        return sum(len(piece) for piece in iter(lambda: file.read(65_536), b""))
