"""Kinds of memory that were sealed once: thresholds have been chosen with them in view since. So they are open now.

They were written before any verdict was run on them, by what is known of allocators, runtimes and web handlers alone.
"""

from __future__ import annotations

from truemem_workbench.testing.drift import second_bounded as bounded
from truemem_workbench.testing.drift import second_filling as filling
from truemem_workbench.testing.drift import second_leaks as leaks
from truemem_workbench.testing.drift.corpus import ALONE, BESIDE, BOUNDED, FILLING, LEAK, MIB, STEPS, Kind, leak_beside
from truemem_workbench.testing.drift.parts import constant

SMALL = (4.0, 8.0)
CHUNKS = (256.0, 1024.0)

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
    "leak": Kind(LEAK, None, constant, ALONE),
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
    "warm-up, leak": Kind(LEAK, filling.warm, constant, ALONE),
    "two generations, leak": leak_beside(bounded.generations, leaks.uneven),
    "paced heap, leak": leak_beside(bounded.paced, leaks.by_size),
    "two waves, leak": leak_beside(bounded.waves, constant),
    "hours, leak": leak_beside(bounded.hours, leaks.uneven),
    "model swaps, leak": leak_beside(bounded.swaps, leaks.by_route),
    "trimmed top, leak": leak_beside(bounded.trimmed, leaks.uneven, CHUNKS),
    "keys, leak": leak_beside(filling.keys, constant),
    "sessions, leak": leak_beside(bounded.sessions, leaks.seldom),
    "traffic, leak": leak_beside(bounded.traffic, leaks.by_size),
    "heavy tails, leak": leak_beside(bounded.tails, leaks.uneven),
    "connections, leak": leak_beside(bounded.connections, leaks.by_time),
    "cleared cache, leak": leak_beside(bounded.cleared, constant, (MIB, 4 * MIB)),
    "mapped file, leak": leak_beside(bounded.mapped, leaks.bursts),
}
"""By name."""
