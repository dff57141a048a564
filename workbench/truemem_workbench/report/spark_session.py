"""The Spark session of `truemem report --engine spark`: made or taken, and ended also by a signal."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..support.bad_input import BadInput
from ..support.exit_codes import ENDING
from ..support.extras import need

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARE = 128 << 20
"""Bytes of files that one task reads, if they are small."""
OPENING = 1 << 16
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
        .config("spark.files.maxPartitionBytes", SHARE)
        .config("spark.files.openCostInBytes", OPENING)
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
        raise BadInput(f"Spark: {_reason(str(error))}") from error
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


def _reason(text: str) -> str:
    """The line of a Java error that says what is wrong."""
    if "JAVA_GATEWAY_EXITED" in text:
        return "Java does not start. Spark needs Java 17: look at JAVA_HOME"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    python = [line for line in lines if re.match(r"(?!org\.|java\.|py4j\.)[\w.]+(Error|Exception|Exhausted)\b: ", line)]
    java = [line.partition(": ")[2] for line in lines if re.match(r": (org|java)\.[\w.$]+: ", line)]
    java = [line.partition(": ")[2] or line for line in java]
    return (python[-1:] or java[:1] or lines[:1] or ["it has failed"])[0][:500]
