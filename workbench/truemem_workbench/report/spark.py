"""`truemem report --engine spark`: the same report, of more files than one machine reads.

Spark lists and reads the files, carries the pieces of the report's work, and tries again what was lost with a machine.
Under spark-submit, Glue and EMR Serverless it uses the session that is there. `read_files` takes some of the files, and
divides their lines by environment; `judge_part` judges the whole environments of one part; `gather_report` makes the
report of all. With --by, `match_requests` comes between: it finds what the function said of a request, which may be in
another file than the sidecar's line. Each part has a DuckDB of its own, with the SQL and the functions of the report on
one machine, so both say the same. Between them lines travel as Parquet, which keeps DuckDB's types and is small.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..aws.clients import object_uri
from ..aws.cloudwatch import Source
from ..lines.log_files import Kind, kind_of
from ..support.bad_input import BadInput, need
from ..support.exit_codes import ENDING
from ..support.untrusted_text import quoted
from .collect import Prices, check_loaded, report_of
from .judging import TABLES, Judged, count_batch, here, judged, left_out
from .schema import COLUMNS, OWN_LINES, REQUEST_VALUES
from .store import BATCH, Loaded, Store
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


_EMPTY = {
    "line": f"CREATE TABLE line AS SELECT * EXCLUDE (many, rest) FROM (SELECT {COLUMNS}) LIMIT 0",
    "own_lines": f"CREATE TABLE own_lines ({OWN_LINES})",
    "request_values": "CREATE TABLE request_values (request UUID, by_value VARCHAR)",
}
"""Tables that a step needs also where no row of theirs came."""


class PartStore(Store):
    """A store on one core of many."""

    def __init__(self) -> None:
        super().__init__(threads=1)

    def saved(self, query: str) -> bytes:
        """The rows of a query as Parquet."""
        path = self._folder / "saved.parquet"
        self._db.execute(f"COPY ({query}) TO {quoted(str(path))} (FORMAT parquet)")
        content = path.read_bytes()
        path.unlink()
        return content

    def divided(self, query: str) -> Iterator[tuple[int, bytes]]:
        """The rows of a query by its column `part`, which is left out. Only parts that have rows."""
        self._db.execute(f"CREATE OR REPLACE TEMP TABLE divided AS {query} ORDER BY part")
        for (part,) in self._db.execute("SELECT DISTINCT part FROM divided ORDER BY part").fetchall():
            yield part, self.saved(f"SELECT * EXCLUDE (part) FROM divided WHERE part = {part}")
        self._db.execute("DROP TABLE divided")

    @contextmanager
    def restoring(self) -> Iterator[Callable[[str, bytes], None]]:
        """Yield a function that takes a table's name and rows of it as Parquet. At the end all are in their tables."""
        found: dict[str, list[Path]] = {}

        def put(table: str, content: bytes) -> None:
            paths = found.setdefault(table, [])
            paths.append(self._folder / f"{table}-{len(paths)}.parquet")
            paths[-1].write_bytes(content)

        yield put
        for table in {**_EMPTY, **found}:
            paths = found.get(table, [])
            names = ", ".join(quoted(str(path)) for path in paths)
            self._db.execute(f"CREATE TABLE {table} AS FROM read_parquet([{names}])" if paths else _EMPTY[table])
            for path in paths:
                path.unlink()


BY_ENVIRONMENT = "((environment >> 32) * {parts}) >> 32"
"""The part of a line: environments in the order of their keys. The key is a hash of 64 bits."""
BY_REQUEST = "((hash(request) >> 32) * {parts}) >> 32"
_PART_OF_VALUES = (
    f"SELECT DISTINCT request_values.*, {BY_ENVIRONMENT} AS part FROM request_values JOIN line USING (request)"
)


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is asked for, as `truemem report` has it."""

    parts: int
    """Parts that the environments are divided into. A part is in one place while it is judged."""
    by: str | None = None
    since_ms: float | None = None
    environment: str | None = None
    function: str | None = None


class Piece(NamedTuple):
    """What one step has for another."""

    part: int
    kind: str
    """A table of the store; or `loaded`, `left out`, `judged`, `refused`."""
    content: Any
    """Rows as Parquet; or a Loaded, a LeftOut, a list of Judged, the reason why a file was refused."""


File = tuple[str, Iterable[bytes]]
"""A file's name, and what is in it, in any number of pieces."""


def read_files(files: Iterable[File], job: Job) -> Iterator[Piece]:
    """Read some of the files, and divide their lines into parts: by environment, with --by by request.

    A file that cannot be read becomes a piece: as an error, it would be tried again on another machine.
    """
    with tempfile.TemporaryDirectory(prefix="truemem-report-") as folder, PartStore() as store:
        names: dict[Path, str] = {}
        for number, (name, content) in enumerate(files):
            path = Path(folder) / f"{number}.log"
            names[path] = name
            with path.open("wb") as file:
                file.writelines(content)
        if not names:
            return
        try:
            loaded = store.load(
                list(names), since_ms=job.since_ms, environment=job.environment, function=job.function, by=job.by
            )
        except BadInput as error:
            text = str(error)
            for path, name in names.items():
                text = text.replace(str(path), name)
            yield Piece(0, "refused", text)
            return
        yield Piece(0, "loaded", loaded)
        if job.by is None:
            yield from _divided_pieces(store, "line", f"SELECT *, {BY_ENVIRONMENT} AS part FROM line", job)
            return
        yield from _divided_pieces(store, "line", f"SELECT *, {BY_REQUEST} AS part FROM line", job)
        yield from _divided_pieces(
            store, "own_lines", f"SELECT *, {BY_REQUEST} AS part FROM own_lines WHERE by_value IS NOT NULL", job
        )


def match_requests(pieces: Iterable[Piece], job: Job) -> Iterator[Piece]:
    """Find what was said of the requests of one part, and divide its lines by environment. Only with --by."""
    with PartStore() as store:
        yield from _into_tables(store, pieces)
        store.execute(f"CREATE OR REPLACE TABLE request_values AS {REQUEST_VALUES}")
        yield Piece(0, "left out", left_out(store))
        yield from _divided_pieces(store, "line", f"SELECT *, {BY_ENVIRONMENT} AS part FROM line", job)
        yield from _divided_pieces(store, "request_values", _PART_OF_VALUES, job)


def judge_part(pieces: Iterable[Piece], job: Job) -> Iterator[Piece]:
    """Judge the environments of one part."""
    with PartStore() as store:
        yield from _into_tables(store, pieces)
        if not store.value("SELECT count(*) FROM line"):
            return
        for _ in store.batches():
            yield Piece(0, "judged", list(judged(store, job.by, here)))
            count_batch(store, job.by)
        for table in TABLES:
            yield Piece(0, table, store.saved(f"FROM {table}"))


def gather_report(pieces: Iterable[Piece], job: Job, prices: Prices) -> tuple[Loaded, Report | None]:
    """Make the report of all parts; None if there is no line. Raises BadInput if a file was refused."""
    with PartStore() as store:
        (*others,) = _into_tables(store, pieces)
        refused = sorted(piece.content for piece in others if piece.kind == "refused")
        if refused:
            raise BadInput(refused[0])
        loaded = _loaded_in_all([piece.content for piece in others if piece.kind == "loaded"])
        if not loaded.lines:
            return loaded, None
        found: list[Judged] = sorted(
            (each for piece in others if piece.kind == "judged" for each in piece.content), key=lambda each: each.key
        )
        missing: list[LeftOut] = [piece.content for piece in others if piece.kind == "left out"]
        without = None
        if job.by is not None:
            without = LeftOut(
                without_request_id=sum(each.without_request_id for each in missing),
                without_line=sum(each.without_line for each in missing),
            )
        return loaded, report_of(store, found, loaded, job.by, without, prices)


def _loaded_in_all(loaded: Iterable[Loaded]) -> Loaded:
    lines = elsewhere = 0
    unread: Counter[str] = Counter()
    for each in loaded:
        lines += each.lines
        elsewhere += each.elsewhere
        unread += each.unread
    return Loaded(lines, elsewhere, unread)


def _divided_pieces(store: PartStore, kind: str, query: str, job: Job) -> Iterator[Piece]:
    """The rows of a query, one piece for each `part` that it names."""
    for part, content in store.divided(query.format(parts=job.parts)):
        yield Piece(part, kind, content)


def _into_tables(store: PartStore, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Put all rows back into tables. Yields the pieces that are none."""
    with store.restoring() as put:
        for piece in pieces:
            if isinstance(piece.content, bytes):
                put(piece.kind, piece.content)
            else:
                yield piece


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


def report_on_spark(where: Source, options: Mapping[str, Any], prices: Prices) -> Report:
    """Read and judge all lines. `options` are those of the command. Raises BadInput."""
    places = _places(where)
    with session_on(options["master"]) as session:
        shares, size = _shares(session, places)
        if not shares:
            check_loaded(Loaded(0, 0), where)
        job = Job(
            parts=_part_count(size, session.sparkContext.defaultParallelism),
            by=options["by"],
            since_ms=where.since_ms,
            environment=options["environment"],
            function=where.function,
        )
        pieces = session.sparkContext.union([_each(read_files, share, job) for share in shares])
        if job.by is not None:
            pieces = _each(match_requests, _gathered(pieces, job), job)
        found = _each(judge_part, _gathered(pieces, job), job).collect()
    loaded, report = gather_report(found, job, prices)
    check_loaded(loaded, where)
    assert report is not None  # there are lines
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


def _part_count(size: int, cores: int) -> int:
    """So many parts that each is about a batch; at least one for each core."""
    return max(1, min(MOST_PARTS, max(cores, size // LINE_BYTES // BATCH)))


def _each(step: Any, items: RDD[Any], job: Job) -> RDD[Piece]:
    return items.mapPartitions(partial(step, job=job))


def _gathered(pieces: RDD[Piece], job: Job) -> RDD[Piece]:
    """The pieces, each part in one place."""
    return pieces.keyBy(_part).partitionBy(job.parts, int).values()


def _part(piece: Piece) -> int:
    return piece.part
