"""Where mutation begins: what each target is really given."""

import json

from truemem.journal import CURVE
from truemem.support.files import PAGE_BYTES

from tests.golden import ARCHIVE
from tests.heaps.hsperf_golden import captured, encoded

REPORT = {
    "time": "2026-01-01T00:00:00.000Z",
    "type": "platform.report",
    "record": {"requestId": "one", "status": "success", "metrics": {"durationMs": 2.5, "maxMemoryUsedMB": 94}},
}
START = {"type": "platform.initStart", "record": {"instanceId": "2026/11/21/[1]abc", "phase": "init"}}
DROPPED = {"type": "platform.logsDropped", "record": {"droppedRecords": 3}}
BATCH = json.dumps([REPORT, START, DROPPED]).encode()

RUNTIME = b"2018-06-01/runtime/invocation"
NEXT = b"GET /%s/next HTTP/1.1\r\nHost: 127.0.0.1:9001\r\n\r\n" % RUNTIME
EVENT = b'HTTP/1.1 200 OK\r\nLambda-Runtime-Aws-Request-Id: one\r\nContent-Length: 9\r\n\r\n{"a": 77}'
ANSWER = b"POST /%s/one/response HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4;x\r\ntrue\r\n0\r\n\r\n" % RUNTIME
ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"


PYTHON_HEAP = (
    b"truemem-heap-3 1 one 1790000000000 python children=9 inUse=9 held=9 mapped=9 gc0=7 gc1=1 gc2=1 threads=1 1\n"
)
NODE_HEAP = (
    b"truemem-heap-3 2 one 1790000000000 nodejs used=9 committed=9 limit=99 external=1 live=8 collections=1 gcMs=5 2\n"
)
HEAP_PAGE = b"".join(slot.ljust(256, b"\0") for slot in (PYTHON_HEAP.replace(b"one", b"two"), NODE_HEAP, PYTHON_HEAP))

LINE = {"file": "a.py", "line": 1, "function": "f", "perInvocationKiB": 39.1, "share": 0.97, "stack": ["a.py:1 f"]}
PROFILE = {"runtime": "python", "looks": 6, "cpuPercent": 12.5, "lookMs": 85, "gaveUp": "cpu", "libraries": ["a.so"]}


def journal() -> bytes:
    """What a killed sidecar leaves: one invocation closed, one running, with its curve. Empty pages are left out."""
    event = b'{"eventType":"INVOKE","requestId":"two"}'
    history = b'["","2026/11/21/[1]abc",1,52000,94.0,0]\n'
    curve = b'[1000,2000,1500,2500,12.5,{"process":"python3","pid":12,"rss":1500},[[100,1.5],[0,2.5]]]\n'
    closed = b'W[1790000000000,{"PeakRSS":12.5},{"requestId":"one","invocation":1,"method":"vmhwm"}]\n'
    running = (b"2 1790000001000 " + event + b"\n").ljust(CURVE, b"\0") + curve
    return b"".join(page.ljust(PAGE_BYTES, b"\0") for page in (history, running, b"", closed, b"P" + closed[1:]))


def seeds() -> dict[str, list[bytes]]:
    """By target."""
    proc = [part.partition("\n")[2].encode() for part in ARCHIVE.read_text().split("\n--- ")]
    post = b"\x07POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(BATCH), BATCH)
    chunked = b"\xffHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nhell\r\n1\r\no\r\n0\r\n\r\n"
    return {
        "http": [post, chunked, b"\x01HTTP/1.1 200 OK\r\n\r\nbody"],
        "telemetry_batch": [BATCH],
        "json": [BATCH, b"[" * 5000, b'{"a":' * 5000],
        "proc_files": proc,
        "cgroup_files": [b"0::/a\n5:memory:/b\n", b"123456\n"],
        "hsperfdata": [encoded(entries, 3, size=0) for entries in captured().values()],
        "passwd": [b"root:x:0:0:root:/root:/bin/sh\nsbx_user1051:x:993:990::/home/sbx_user1051:/sbin/nologin\n"],
        "heap_page": [HEAP_PAGE],
        "lines_answer": [json.dumps({**PROFILE, "lines": [LINE, LINE]}).encode()],
        "passing": [post, chunked, b"\x01" + NEXT + ANSWER + NEXT, b"\x0a" + EVENT + ACCEPTED],
        "talk": [
            b"\0".join((b"0" + NEXT, b"2" + EVENT, b"0" + ANSWER + NEXT, b"2" + ACCEPTED, b"2" + EVENT[:50], b"4")),
            b"\0".join((b"0" + NEXT, b"2" + EVENT, b"1" + ANSWER, b"3" + ACCEPTED, b"5", b"0" + NEXT)),
        ],
        "settings": [
            *(b"\x02Stage=prod, Team=ml\0\x091024", b"\x08debug\0\x000\0\x05100", b"\x041%\0\x01My/Space"),
            *(
                bytes([setting]) + value
                for setting in range(9)
                for value in (b"nan", b"-inf", b"1e999", b"9" * 5000, b"-0")
            ),
        ],
        "journal": [journal()],
    }
