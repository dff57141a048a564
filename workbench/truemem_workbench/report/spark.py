"""`truemem report --engine spark`: the same report, of more files than one machine reads.

Spark lists and reads the files, carries the pieces of the report's work, and tries again what was lost with a machine.
Under spark-submit, Glue and EMR Serverless it uses the session that is there. `read_files` takes some of the files, and
divides their lines by environment; `judge_lines` judges the whole environments of one part; `gather_report` makes the
report of all. With --by, `match_lines` comes between: it finds what the function said of a request, which may be in
another file than the sidecar's line. All are the steps of the report on one machine, so both say the same.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..aws.clients import object_uri
from ..aws.cloudwatch import Source
from ..printed.log_files import Kind, kind_of
from ..printed.parts import Part, divided, merged
from ..printed.reader import Job, Loaded, Reader
from ..support.bad_input import BadInput, need
from ..support.exit_codes import ENDING
from .collect import PACKED, Prices, check_loaded, part_count, report_of, without_sidecar
from .counts import Counts
from .steps import Found, judge_part, match_requests
from .summary import LeftOut, Report

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

TASK_BYTES = 128 << 20
"""Bytes of files that one task reads, if they are small."""
OPENING_BYTES = 1 << 16
"""Bytes that opening a file is counted for: an export of CloudWatch has a small file for each log stream."""
DRIVER_MEMORY = "4g"
"""Of a driver that is started here: local executors are in it."""
ENDING_LOOKS, ENDING_S = 20, 0.1
"""Most attempts to remove the tasks' folder, and the seconds between them."""
_MASTER = re.compile(r"local(\[.+\]|-cluster\[.+\])?|yarn|(spark|k8s|mesos)://.+")


@contextmanager
def session_on(master: str | None) -> Iterator[SparkSession]:
    """A session, which ends with the block. Raises BadInput if there can be none, or if its job fails."""
    if master is not None and not _MASTER.fullmatch(master):
        raise BadInput(f"--master {master} is none. Try local[*], spark://HOST:7077, yarn or k8s://URL")
    need("spark")
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit, which knows master and memory
    if not submitted and not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise BadInput("Spark needs Java, and there is none. Install Java 17, or set JAVA_HOME")
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a task has one core
    folder = None
    builder: Any = SparkSession.builder.appName("truemem report")
    if master is not None or not submitted:
        master = master or "local[*]"
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # not another that is first in PATH
            builder = builder.config("spark.driver.memory", DRIVER_MEMORY).config("spark.ui.enabled", "false")
            folder = tempfile.mkdtemp(prefix="truemem-report-")  # of the tasks: one that is killed removes nothing
            builder = builder.config("spark.executorEnv.TMPDIR", folder)
    builder = (
        builder.config("spark.driver.maxResultSize", "0")  # all environments come to the driver
        .config("spark.files.maxPartitionBytes", TASK_BYTES)
        .config("spark.files.openCostInBytes", OPENING_BYTES)
        .config("spark.hadoop.mapreduce.input.fileinputformat.input.dir.recursive", "true")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
    )
    session = None
    came: list[BaseException] = []
    handlers = {number: signal.getsignal(number) for number in ENDING}
    try:
        session = builder.getOrCreate()
        _cancel_at_signals(session, handlers, came)
        yield session
    except (PySparkException, Py4JError) as error:
        if came:  # it is what came of the answer that was not waited for
            raise came[0] from None
        raise BadInput(f"Spark: {_java_reason(str(error))}") from error
    finally:
        if session is not None:
            # from a thread with a connection of its own: after a signal, an answer may wait on that of this one
            stopping = threading.Thread(target=session.stop)
            stopping.start()
            stopping.join()
        if folder is not None:
            _remove(folder)


def _cancel_at_signals(
    session: SparkSession, handlers: Mapping[signal.Signals, Any], came: list[BaseException]
) -> None:
    """Let a signal cancel the job before its handler raises: until Java has answered, nothing else can be asked on the
    connection of this thread, and Python would wait for the whole job. PySpark's handler for Ctrl-C asks on it.

    What a handler raises is put into `came`."""

    def cancel(number: int, frame: FrameType | None) -> None:
        threading.Thread(target=session.sparkContext.cancelAllJobs, daemon=True).start()
        try:
            handlers[signal.Signals(number)](number, frame)
        except BaseException as error:
            came.append(error)
            raise

    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            signal.signal(number, cancel if callable(handler) else handler)


def _remove(folder: str) -> None:
    """Remove the tasks' folder. They end a moment after Spark has, and may write until then."""
    for _ in range(ENDING_LOOKS):
        shutil.rmtree(folder, ignore_errors=True)
        if not Path(folder).exists():
            return
        time.sleep(ENDING_S)


def _java_reason(text: str) -> str:
    """The line of a Java error that says what is wrong."""
    if "JAVA_GATEWAY_EXITED" in text:
        return "Java does not start. Spark needs Java 17: look at JAVA_HOME"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    python = [line for line in lines if re.match(r"(?!org\.|java\.|py4j\.)[\w.]+(Error|Exception|Exhausted)\b: ", line)]
    java = [line.partition(": ")[2] for line in lines if re.match(r": (org|java)\.[\w.$]+: ", line)]
    java = [line.partition(": ")[2] or line for line in java]
    return (python[-1:] or java[:1] or lines[:1] or ["it has failed"])[0][:500]


class Piece(NamedTuple):
    """What one step has for another."""

    part: int
    content: Any
    """A Part of the lines; or a Loaded, a Found, a reason why a file was refused, a number of requests without a line.
    """


File = tuple[str, Iterable[bytes]]
"""A file's name, and what is in it, in any number of pieces."""


def read_files(files: Iterable[File], job: Job, parts: int) -> Iterator[Piece]:
    """Read some of the files, and divide their lines into so many parts: by environment, with --by by request.

    A file that cannot be read becomes a piece: as an error, it would be tried again on another machine.
    """
    with tempfile.TemporaryDirectory(prefix="truemem-report-") as folder:
        reader = Reader(job)
        names: dict[Path, str] = {}
        for number, (name, content) in enumerate(files):
            path = Path(folder) / f"{number}.log"
            names[path] = name
            with path.open("wb") as file:
                file.writelines(content)
        try:
            for part in reader.read(list(names), named=names):
                for number, divided_part in divided(part, "environment" if job.by is None else "request_key", parts):
                    yield Piece(number, divided_part)
        except BadInput as error:
            text = str(error)
            for path, name in names.items():
                text = text.replace(str(path), name)
            yield Piece(0, text)
            return
        yield Piece(0, reader.loaded)


def match_lines(pieces: Iterable[Piece], job: Job, parts: int) -> Iterator[Piece]:
    """Find what was said of the requests of one part, and divide its lines by environment. Only with --by."""
    lines: list[Part] = []
    yield from _without_lines(pieces, lines)
    without, matched = match_requests(merged(lines), parts)
    yield Piece(0, without)
    yield from itertools.starmap(Piece, matched)


def judge_lines(pieces: Iterable[Piece], job: Job, parts: int) -> Iterator[Piece]:
    """Judge the environments of one part."""
    lines: list[Part] = []
    yield from _without_lines(pieces, lines)
    if lines:
        yield Piece(0, judge_part(merged(lines), job.by))


def gather_report(pieces: Iterable[Piece], job: Job, prices: Prices) -> tuple[Loaded, Report | None]:
    """Make the report of all parts; None if nothing was found. Raises BadInput if a file was refused."""
    loaded, counts, found, without = Loaded(), Counts(), [], 0
    refused = []
    for _, content in pieces:
        if isinstance(content, Loaded):
            loaded.add(content)
        elif isinstance(content, Found):
            counts.add(content.counts)
            found += content.environments
        elif isinstance(content, str):
            refused.append(content)
        else:
            without += content
    if refused:
        raise BadInput(min(refused))
    unmeasured = without_sidecar(loaded, job)
    if not loaded.lines and not unmeasured:
        return loaded, None
    left_out = None if job.by is None else LeftOut(without_request_id=loaded.without_request_id, without_line=without)
    return loaded, report_of(found, counts, loaded, job.by, left_out, prices, unmeasured)


def _without_lines(pieces: Iterable[Piece], lines: list[Part]) -> Iterator[Piece]:
    """Take the lines out. Yields the other pieces."""
    for piece in pieces:
        if isinstance(piece.content, Part):
            lines.append(piece.content)
        else:
            yield piece


WHOLE = 160 << 20
"""Largest file, in bytes, that one task takes whole, whatever its form. Firehose's largest object has 128 MiB. A larger
file is divided at line breaks."""
MOST_PARTS = 1000
"""Each task may have a piece for each part, and a piece takes milliseconds. A part is judged in batches."""
HEAD_LINES = 200
_LIST = re.compile(r"[,{}]")
"""What binaryFiles and textFile take for a list of paths, or for alternatives in one, also after a backslash."""


def report_on_spark(where: Source, options: Mapping[str, Any], prices: Prices) -> Report:
    """Read and judge all lines. `options` are those of the command. Raises BadInput."""
    places = _places(where)
    with session_on(options["master"]) as session:
        shares, size = _shares(session, places)
        if not shares:
            check_loaded(Loaded(), where)
        parts = part_count(size, session.sparkContext.defaultParallelism, MOST_PARTS)
        job = Job(
            by=options["by"], since_ms=where.since_ms, environment=options["environment"], function=where.function
        )
        pieces = session.sparkContext.union([_each(read_files, share, job, parts) for share in shares])
        if job.by is not None:
            pieces = _each(match_lines, _gathered(pieces, parts), job, parts)
        found = _each(judge_lines, _gathered(pieces, parts), job, parts).collect()
    loaded, report = gather_report(found, job, prices)
    if report is None:
        check_loaded(loaded, where)
    assert report is not None
    return report


def _places(where: Source) -> list[str]:
    """Files, folders and patterns, as Spark knows them. Raises BadInput for what it cannot read."""
    if where.log_group is not None:
        raise BadInput("--engine spark reads files, not CloudWatch. Export the log group to S3, and name the folder")
    places = []
    for file in where.files:
        text = object_uri(file)
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


def _each(step: Any, items: RDD[Any], job: Job, parts: int) -> RDD[Piece]:
    return items.mapPartitions(partial(step, job=job, parts=parts))


def _gathered(pieces: RDD[Piece], parts: int) -> RDD[Piece]:
    """The pieces, each part in one place."""
    return pieces.keyBy(_part).partitionBy(parts, int).values()


def _part(piece: Piece) -> int:
    return piece.part
