"""A dozen handlers that compute and wait in different ways, and a loop that measures one of them.

Reads a line for each invocation, and answers with its duration and CPU time in ms, children that ended included.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

DATA = random.Random(1).randbytes(1 << 20)
POOL = ThreadPoolExecutor(8)


def computed(rounds: int = 40) -> None:
    """hashlib does without the interpreter's lock."""
    for _ in range(rounds):
        hashlib.sha256(DATA).digest()


def waits() -> None:
    time.sleep(0.06)


def hashes() -> None:
    computed(120)


def a_burst() -> None:
    time.sleep(0.03)
    computed(4)


def in_turn() -> None:
    time.sleep(0.08)
    computed(40)


def in_many_turns() -> None:
    for _ in range(20):
        time.sleep(0.004)
        computed(2)


def at_once() -> None:
    """Five requests that wait while another is parsed."""
    asked = [POOL.submit(time.sleep, 0.03 + 0.01 * number) for number in range(5)]
    for each in asked:
        each.result()
        computed(8)


def threads() -> None:
    list(POOL.map(computed, [40, 40]))


def objects() -> None:
    """Makes and parses JSON: it allocates, and holds the interpreter's lock."""
    for _ in range(6):
        json.loads(json.dumps([{"id": number, "name": f"row {number}", "tags": [1, 2, 3]} for number in range(3000)]))


def pages() -> None:
    """Fresh memory: the kernel computes too."""
    for _ in range(3):
        bytearray(48 << 20)
    time.sleep(0.02)


def children() -> None:
    for _ in range(2):
        subprocess.run(["sha256sum"], input=DATA * 16, stdout=subprocess.DEVNULL, check=True)


def matrices() -> None:
    import numpy as np

    made = np.random.default_rng(1).random((500, 500))
    for _ in range(4):
        made = made @ made.T / 500


def inference() -> None:
    import numpy as np

    if not SESSION:
        SESSION.append(_session())
    rows = np.ones((8, 1024), np.float32)
    for _ in range(12):
        SESSION[0].run(None, {"x": rows})  # type: ignore[attr-defined]


SESSION: list[object] = []


def _session() -> object:
    import numpy as np
    import onnx
    import onnxruntime

    weights = np.random.default_rng(1).random((1024, 1024), np.float32)
    names = ["x", *(f"h{number}" for number in range(3)), "y"]
    nodes = [onnx.helper.make_node("MatMul", [a, "w"], [b]) for a, b in itertools.pairwise(names)]
    kinds = [onnx.helper.make_tensor_value_info(name, 1, [8, 1024]) for name in ("x", "y")]
    graph = onnx.helper.make_graph(nodes, "g", kinds[:1], kinds[1:], [onnx.numpy_helper.from_array(weights, "w")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    return onnxruntime.InferenceSession(model.SerializeToString())


def _cpu_ms() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return 1000 * sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    handler = globals()[sys.argv[1]]
    handler()
    print(os.getpid(), flush=True)
    for _ in sys.stdin:
        begun, before = time.perf_counter(), _cpu_ms()
        handler()
        print(1000 * (time.perf_counter() - begun), _cpu_ms() - before, flush=True)


if __name__ == "__main__":
    main()
