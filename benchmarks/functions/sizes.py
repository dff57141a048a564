"""A dozen handlers that compute and wait in different ways, and others composed at random.

`handler` runs the one that the variable WORK names, and answers with its duration and CPU time in ms, children that
ended included.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import os
import random
import resource
import subprocess
import time
from collections.abc import Callable
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
    """As long as `in_many_turns`, and as much CPU time, where nothing throttles them."""
    time.sleep(0.082)
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
    """As much CPU time as `hashes`."""
    list(POOL.map(computed, [60, 60]))


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
        child(16)


def child(mib: int) -> None:
    subprocess.run(["sha256sum"], input=DATA * mib, stdout=subprocess.DEVNULL, check=True)


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


def at_once_with(ms: float) -> None:
    """Computes while a request waits."""
    asked = POOL.submit(time.sleep, ms / 1000)
    computed(round(ms / 2))
    asked.result()


STEPS: dict[str, tuple[float, Callable[[float], object]]] = {
    "waits": (0.45, lambda ms: time.sleep(ms / 1000)),
    "computes": (0.3, lambda ms: computed(round(ms))),
    "computes in two threads": (0.1, lambda ms: list(POOL.map(computed, [round(ms)] * 2))),
    "computes in a child": (0.05, lambda ms: child(1 + round(ms / 2))),
    "computes while it waits": (0.1, at_once_with),
}
"""How often a step is of that kind, and what it does for so many ms, roughly."""


def composed(seed: int) -> Callable[[], None]:
    """One to eight steps of 2 to 60 ms. The work varies by half from one invocation to the next, as real work does:
    the same in the nth invocation of each process."""
    chance = random.Random(seed)
    kinds = chance.choices(list(STEPS), [often for often, _ in STEPS.values()], k=chance.randint(1, 8))
    steps = [(STEPS[kind][1], math.exp(chance.uniform(math.log(2), math.log(60)))) for kind in kinds]

    def run() -> None:
        for step, ms in steps:
            step(ms * chance.uniform(0.5, 1.5))

    return run


@functools.cache
def named(name: str) -> Callable[[], object]:
    """The handler of this name; `composed_7` is the one that is composed with seed 7."""
    kind, _, seed = name.rpartition("_")
    found: Callable[[], object] = composed(int(seed)) if kind == "composed" else globals()[name]
    return found


def _cpu_ms() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return 1000 * sum(each.ru_utime + each.ru_stime for each in used)


def handler(_event: object, _context: object) -> tuple[float, float]:
    begun, before = time.perf_counter(), _cpu_ms()
    named(os.environ["WORK"])()
    return 1000 * (time.perf_counter() - begun), _cpu_ms() - before
