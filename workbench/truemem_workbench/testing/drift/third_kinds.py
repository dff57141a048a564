"""Kinds of memory that were sealed once, after `second_kinds`. They are open now.

They were written before any verdict was run on them, by what is known of allocators, runtimes and web handlers alone.
"""

from __future__ import annotations

from truemem_workbench.testing.drift import third_bounded as bounded
from truemem_workbench.testing.drift import third_filling as filling
from truemem_workbench.testing.drift import third_leaks as leaks
from truemem_workbench.testing.drift.corpus import ALONE, BESIDE, BOUNDED, FILLING, LEAK, MIB, STEPS, Kind, leak_beside
from truemem_workbench.testing.drift.parts import constant

CHUNKS = (128.0, 1024.0)

KINDS: dict[str, Kind] = {
    "decayed arenas": Kind(BOUNDED, bounded.decayed),
    "queue": Kind(BOUNDED, bounded.queue),
    "expiring entries": Kind(BOUNDED, bounded.expiring),
    "batches": Kind(BOUNDED, bounded.batches),
    "outages": Kind(BOUNDED, bounded.outages),
    "largest request": Kind(BOUNDED, bounded.largest),
    "tenants": Kind(BOUNDED, bounded.tenants),
    "regimes": Kind(BOUNDED, bounded.regimes),
    "cycles": Kind(BOUNDED, bounded.cycles),
    "ring": Kind(BOUNDED, bounded.ring),
    "compacted store": Kind(BOUNDED, bounded.compacted),
    "resident files": Kind(BOUNDED, bounded.resident),
    "flushed code": Kind(BOUNDED, bounded.flushed),
    "universe of keys": Kind(FILLING, filling.universe),
    "templates": Kind(FILLING, filling.combinations),
    "labels": Kind(FILLING, filling.series),
    "widest pool": Kind(FILLING, filling.widest),
    "cache bound in bytes": Kind(FILLING, filling.bytes_bound),
    "restored heap": Kind(FILLING, filling.touched),
    "histograms": Kind(FILLING, filling.sketches),
    "hash table": Kind(FILLING, filling.doubling),
    "lanes": Kind(FILLING, filling.lanes),
    "leak each time": Kind(LEAK, None, constant, ALONE),
    "leak by item": Kind(LEAK, None, leaks.items, ALONE),
    "leak by error": Kind(LEAK, None, leaks.errors, ALONE),
    "leak in spells": Kind(LEAK, None, leaks.spells, ALONE),
    "leak of two sizes": Kind(LEAK, None, leaks.two_sizes, ALONE),
    "leak by the clock": Kind(LEAK, None, leaks.clock, ALONE),
    "heavy leak, chunks": Kind(LEAK, None, leaks.heavy, ALONE, step_kib=CHUNKS),
    "leak by item in steps": Kind(LEAK, None, leaks.items, BESIDE, step_kib=STEPS),
    "leak in steps": Kind(LEAK, None, constant, BESIDE, step_kib=(2 * MIB, 4 * MIB)),
    "leak, scratch": Kind(LEAK, filling.scratch, leaks.items, (4.0, 8.0)),
    "leak that begins": Kind(LEAK, filling.scratch, leaks.begins, ALONE, steady=False),
    "leak that feeds itself": Kind(LEAK, None, leaks.cubic, ALONE, steady=False),
    "two stages, leak": Kind(LEAK, filling.two_stages, leaks.two_sizes, ALONE),
    "decayed arenas, leak": leak_beside(bounded.decayed, leaks.items),
    "queue, leak": leak_beside(bounded.queue, constant),
    "shifts, leak": leak_beside(bounded.shifts, leaks.two_sizes),
    "blocks, leak": leak_beside(bounded.blocks, leaks.items, CHUNKS),
    "tenants, leak": leak_beside(bounded.tenants, leaks.errors),
    "regimes, leak": leak_beside(bounded.regimes, leaks.items),
    "cycles, leak": leak_beside(bounded.cycles, leaks.heavy),
    "largest request, leak": leak_beside(bounded.largest, constant),
    "compacted store, leak": leak_beside(bounded.compacted, leaks.clock),
    "resident files, leak": leak_beside(bounded.resident, leaks.items, STEPS),
    "flushed code, leak": leak_beside(bounded.flushed, leaks.spells),
    "universe of keys, leak": leak_beside(filling.universe, leaks.items),
    "restored heap, leak": leak_beside(filling.touched, constant),
}
"""By name."""
