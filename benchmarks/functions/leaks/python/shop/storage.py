"""Files, buffers and small databases."""

import mmap
import os
import sqlite3

ERRORS = {}
BUFFERS = []
REPORTS = {}


def read_stat(path, n):
    rows = [f"try {n}.{i}" for i in range(200)]  # LEAK failed_tracebacks
    return os.stat(path).st_size + len(rows)


def stat_cached(path, n, repaired):
    try:
        return read_stat(path, n)
    except OSError as error:
        if repaired and len(ERRORS) > 16:
            ERRORS.clear()
        ERRORS[path] = error.with_traceback(None) if repaired else error  # LEAK failed_tracebacks
    return 0


# canonical/ubuntu-frame#213 (there in C++): mapped memory that is not unmapped
def page_buffer(n, repaired):
    buffer = mmap.mmap(-1, 24576)  # LEAK page_buffers
    buffer.write(bytes([n % 256]) * 24000)
    if repaired:
        buffer.close()
        return 0
    BUFFERS.append(buffer)  # LEAK page_buffers
    return len(BUFFERS)


# no report: a database in memory for each request, never closed
def report(n, repaired):
    base = sqlite3.connect(":memory:")  # LEAK report_db
    base.execute("create table lines (id integer, text text)")  # LEAK report_db
    base.executemany("insert into lines values (?, ?)", ((i, f"{n}-{i}") for i in range(300)))  # LEAK report_db
    total = base.execute("select count(*) from lines").fetchone()[0]
    if repaired:
        base.close()
    else:
        REPORTS[n] = base  # LEAK report_db
    return total
