"""`truemem report --engine spark`: the same report, of more files than one machine reads.

Spark lists and reads the files, carries the pieces of `distributed`, and tries again what was lost with a machine. All
else is done by the functions of the report on one machine. Under spark-submit, Glue and EMR Serverless it uses the
session that is there.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..aws.log_source import Source
from ..aws.objects import uri
from ..lines.log_files import Kind, kind_of
from ..support.bad_input import BadInput
from .collect import Prices
from .distributed import File, Job, Piece, gather, judge_part, match, read
from .spark_session import session_on
from .store import BATCH, Loaded
from .summary import Report

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

WHOLE = 160 << 20
"""Largest file, in bytes, that one task takes whole, whatever its form. Firehose's largest object has 128 MiB. A larger
file is divided at line breaks."""
LINE_BYTES = 900
PACKED = 10
"""A gzipped log has this many times as many bytes, about."""
MOST_PARTS = 1000
"""Each task may have a piece for each part, and a piece takes milliseconds. A part is judged in batches."""
HEAD_LINES = 200
_LIST = re.compile(r"[,{}]")
"""What binaryFiles and textFile take for a list of paths, or for alternatives in one, also after a backslash."""


def report(where: Source, options: Mapping[str, Any], prices: Prices) -> tuple[Loaded, Report | None]:
    """Read and judge all lines; None if there is none. `options` are those of the command. Raises BadInput."""
    places = _places(where)
    with session_on(options["master"]) as session:
        shares, size = _shares(session, places)
        if not shares:
            return Loaded(0, 0), None
        job = Job(
            parts=_parts(size, session.sparkContext.defaultParallelism),
            by=options["by"],
            since_ms=where.since_ms,
            environment=options["environment"],
            function=where.function,
        )
        pieces = session.sparkContext.union([_each(read, share, job) for share in shares])
        if job.by is not None:
            pieces = _each(match, _gathered(pieces, job), job)
        found = _each(judge_part, _gathered(pieces, job), job).collect()
    return gather(found, job, prices)


def _places(where: Source) -> list[str]:
    """Files, folders and patterns, as Spark knows them. Raises BadInput for what it cannot read."""
    if where.log_group is not None:
        raise BadInput("--engine spark reads files, not CloudWatch. Export the log group to S3, and name the folder")
    places = []
    for file in where.files:
        text = uri(file)
        if file.name.startswith(("_", ".")) and file.name != "..":
            raise BadInput(f"--engine spark does not read {file}, because its name begins with _ or . Try another name")
        if text.startswith("file://"):
            places.append(str(file))  # file:///a is file:/a as a Path, and has no host
        elif "://" in text:
            places.append(text)
        elif text == "-":
            raise BadInput("--engine spark does not read standard input. Write it into a file")
        elif not file.exists() and not set(text) & set("*?[{"):
            raise BadInput(f"{file} cannot be read: No such file or directory")
        else:
            places.append(_local(file))
    return places


def _local(file: Path) -> str:
    """A file or a pattern on this disk, also where Spark's own file system is another. Only what was typed is a
    pattern, not the folder that it begins in."""
    if file.exists():
        return f"file:{_literal(str(file.absolute()))}"
    return f"file:{file if file.is_absolute() else f'{_literal(str(Path.cwd()))}/{file}'}"


def _literal(path: str) -> str:
    """A path as a pattern that is only itself: a log stream has [ and ] in its name."""
    return re.sub(r"([][{}*?\\])", r"\\\1", path)


def _shares(session: SparkSession, places: Sequence[str]) -> tuple[list[RDD[File]], int]:
    """The files, those that are read whole and each large one; and about how many bytes of lines they have."""
    from pyspark.sql import functions as f

    files = session.read.format("binaryFile").option("recursiveFileLookup", "true").load(list(places))
    lines = f.col("length") * f.when(f.col("path").rlike(r"\.gz$"), PACKED).otherwise(1)
    found = files.agg(f.sum(lines).alias("bytes"), f.count_if(f.col("length") > WHOLE).alias("large")).first()
    size, large = (found.bytes or 0, found.large) if found else (0, 0)
    if not size:
        return [], 0
    if not large and not any(map(_LIST.search, places)):
        return [_whole(session, places)], size
    small = [row.path for row in files.where(f.col("length") <= WHOLE).select("path").collect()]
    plain = [_literal(path) for path in small if not _LIST.search(path)]
    shares = [_whole(session, plain)] if plain else []
    if len(plain) < len(small):
        named = files.where((f.col("length") <= WHOLE) & f.col("path").rlike(_LIST.pattern))
        shares.append(named.select("path", "content").rdd.map(_as_file))
    divided = [_divided(session, row.path) for row in files.where(f.col("length") > WHOLE).select("path").collect()]
    return [*shares, *divided], size


def _whole(session: SparkSession, places: Sequence[str]) -> RDD[File]:
    """Files that are read whole. Not as a DataFrame: its rows would take ten times a file's size in Java."""
    return session.sparkContext.binaryFiles(",".join(places)).mapValues(_in_one)


def _in_one(content: bytes) -> list[bytes]:
    return [content]


def _as_file(row: Any) -> File:
    return row.path, [row.content]


def _divided(session: SparkSession, path: str) -> RDD[File]:
    """A large file, divided at line breaks: each task has a part of it. Raises BadInput if it cannot be divided."""
    lines = _lines(session, path)
    head = b"\n".join(lines.take(HEAD_LINES))
    with tempfile.TemporaryDirectory(prefix="truemem-report-") as folder:
        begin = Path(folder) / "head.log"
        begin.write_bytes(head)
        if _kind(begin, path) not in ("lines", "wrapped"):
            raise BadInput(
                f"{path} has more than {WHOLE >> 20} MiB, and not one event a line: Spark cannot divide it."
                " Try it without --engine spark"
            )
    return lines.mapPartitions(partial(_as_one, path))


def _kind(begin: Path, path: str) -> Kind:
    """The form of a file, of which `begin` has the first lines, as Java decodes them: gzipped or in UTF-16, they are
    no text. Raises BadInput."""
    try:
        return kind_of(begin)
    except BadInput as error:
        raise BadInput(str(error).replace(str(begin), path)) from error


def _lines(session: SparkSession, path: str) -> RDD[Any]:
    """The lines of a file, as bytes."""
    if _LIST.search(path):
        return session.read.text(_literal(path)).rdd.map(_encoded)
    return session.sparkContext.textFile(_literal(path), use_unicode=False)


def _encoded(row: Any) -> bytes:
    return str(row.value).encode()


def _as_one(path: str, lines: Iterable[Any]) -> Iterator[File]:
    yield path, (line + b"\n" for line in lines)


def _parts(size: int, cores: int) -> int:
    """So many parts that each is about a batch; at least one for each core."""
    return max(1, min(MOST_PARTS, max(cores, size // LINE_BYTES // BATCH)))


def _each(step: Any, items: RDD[Any], job: Job) -> RDD[Piece]:
    return items.mapPartitions(partial(step, job=job))


def _gathered(pieces: RDD[Piece], job: Job) -> RDD[Piece]:
    """The pieces, each part in one place."""
    return pieces.keyBy(_part).partitionBy(job.parts, int).values()


def _part(piece: Piece) -> int:
    return piece.part
