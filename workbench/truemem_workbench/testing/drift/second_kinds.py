"""Kinds of memory that were sealed once: thresholds have been chosen with them in view since. So they are open now.

They were written before any verdict was run on them, by what is known of allocators, runtimes and web handlers alone.
"""

from __future__ import annotations

from truemem_workbench.testing.drift import second_bounded as bounded
from truemem_workbench.testing.drift import second_filling as filling
from truemem_workbench.testing.drift import second_leaks as leaks
from truemem_workbench.testing.drift.corpus import BOUNDED, FILLING, LEAK, MIB, Curve, Kind

ALONE = (4.0, 64.0)
BESIDE = (8.0, 64.0)
SMALL = (4.0, 8.0)
CHUNKS = (256.0, 1024.0)
STEPS = (MIB, 8 * MIB)


def _beside(other: Curve, leak: Curve, step_kib: tuple[float, float] = (0, 0)) -> Kind:
    return Kind(LEAK, other, leak, BESIDE, beside=True, step_kib=step_kib)


KINDS: dict[str, Kind] = {
    "two generations": Kind(BOUNDED, bounded.generations),
    "committed heap": Kind(BOUNDED, bounded.committed),
    "paced heap": Kind(BOUNDED, bounded.paced),
    "sessions": Kind(BOUNDED, bounded.sessions),
    "two waves": Kind(BOUNDED, bounded.waves),
    "traffic": Kind(BOUNDED, bounded.traffic),
    "buffers": Kind(BOUNDED, bounded.buffers),
    "model swaps": Kind(BOUNDED, bounded.swaps),
    "turnover": Kind(BOUNDED, bounded.turnover),
    "cleared cache": Kind(BOUNDED, bounded.cleared),
    "trimmed top": Kind(BOUNDED, bounded.trimmed),
    "mapped file": Kind(BOUNDED, bounded.mapped),
    "threads": Kind(BOUNDED, bounded.threads),
    "keys": Kind(FILLING, filling.keys),
    "lru cache": Kind(FILLING, filling.lru),
    "imports": Kind(FILLING, filling.imports),
    "weights": Kind(FILLING, filling.weights),
    "compiled code": Kind(FILLING, filling.code),
    "fragments": Kind(FILLING, filling.fragments),
    "record arenas": Kind(FILLING, filling.records),
    "words": Kind(FILLING, filling.words),
    "peers": Kind(FILLING, filling.peers),
    "leak": Kind(LEAK, None, leaks.constant, ALONE),
    "leak by size": Kind(LEAK, None, leaks.by_size, ALONE),
    "leak in one of some": Kind(LEAK, None, leaks.seldom, ALONE),
    "leak by time": Kind(LEAK, None, leaks.by_time, ALONE),
    "leak by route, chunks": Kind(LEAK, None, leaks.by_route, ALONE, step_kib=CHUNKS),
    "leak in steps": Kind(LEAK, None, leaks.uneven, BESIDE, step_kib=STEPS),
    "leak by size in steps": Kind(LEAK, None, leaks.by_size, BESIDE, step_kib=(MIB, 4 * MIB)),
    "small leak, jitter": Kind(LEAK, filling.jitter, leaks.uneven, SMALL),
    "late leak": Kind(LEAK, filling.jitter, leaks.late, ALONE, steady=False),
    "leak ever faster": Kind(LEAK, None, leaks.faster, ALONE, steady=False),
    "leak in bursts": Kind(LEAK, None, leaks.bursts, ALONE),
    "two loads, leak": Kind(LEAK, filling.loads, leaks.uneven, ALONE),
    "warm-up, leak": Kind(LEAK, filling.warm, leaks.constant, ALONE),
    "two generations, leak": _beside(bounded.generations, leaks.uneven),
    "paced heap, leak": _beside(bounded.paced, leaks.by_size),
    "two waves, leak": _beside(bounded.waves, leaks.constant),
    "hours, leak": _beside(bounded.hours, leaks.uneven),
    "model swaps, leak": _beside(bounded.swaps, leaks.by_route),
    "trimmed top, leak": _beside(bounded.trimmed, leaks.uneven, CHUNKS),
    "keys, leak": _beside(filling.keys, leaks.constant),
    "sessions, leak": _beside(bounded.sessions, leaks.seldom),
    "traffic, leak": _beside(bounded.traffic, leaks.by_size),
    "heavy tails, leak": _beside(bounded.tails, leaks.uneven),
    "connections, leak": _beside(bounded.connections, leaks.by_time),
    "cleared cache, leak": _beside(bounded.cleared, leaks.constant, (MIB, 4 * MIB)),
    "mapped file, leak": _beside(bounded.mapped, leaks.bursts),
}
"""By name."""
