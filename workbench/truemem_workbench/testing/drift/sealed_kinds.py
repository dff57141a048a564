"""Kinds of memory against which a verdict is tried once it is finished.

No threshold may be chosen by these. They were written before any verdict was run on them, by what is known of
allocators, runtimes and web handlers alone. Those who tune by them must write others.
"""

from __future__ import annotations

from truemem_workbench.testing.drift import sealed_bounded as bounded
from truemem_workbench.testing.drift import sealed_filling as filling
from truemem_workbench.testing.drift import sealed_leaks as leaks
from truemem_workbench.testing.drift.corpus import ALONE, BESIDE, BOUNDED, FILLING, LEAK, STEPS, Kind, leak_beside
from truemem_workbench.testing.drift.parts import constant

CHUNKS = (64.0, 512.0)

KINDS: dict[str, Kind] = {
    "nursery": Kind(BOUNDED, bounded.nursery),
    "scavenged heap": Kind(BOUNDED, bounded.scavenged),
    "cached blocks": Kind(BOUNDED, bounded.cached),
    "leases": Kind(BOUNDED, bounded.leases),
    "cache by frequency": Kind(BOUNDED, bounded.frequent),
    "uploads": Kind(BOUNDED, bounded.uploads),
    "two settings": Kind(BOUNDED, bounded.canary),
    "replaced workers": Kind(BOUNDED, bounded.workers),
    "written pages": Kind(BOUNDED, bounded.pages),
    "languages": Kind(BOUNDED, bounded.locales),
    "tables": Kind(BOUNDED, bounded.frames),
    "holes": Kind(BOUNDED, bounded.fragments),
    "deferred work": Kind(BOUNDED, bounded.deferred),
    "prepared statements": Kind(FILLING, filling.statements),
    "compiled patterns": Kind(FILLING, filling.patterns),
    "tiers of code": Kind(FILLING, filling.tiers),
    "files up to a quota": Kind(FILLING, filling.quota),
    "deep stacks": Kind(FILLING, filling.stacks),
    "input sizes": Kind(FILLING, filling.sizes),
    "TLS sessions": Kind(FILLING, filling.sessions),
    "lazy modules": Kind(FILLING, filling.lazy),
    "interned names": Kind(FILLING, filling.interned),
    "plain leak": Kind(LEAK, None, constant, ALONE),
    "leak of bodies": Kind(LEAK, None, leaks.bodies, ALONE),
    "leak by attempt": Kind(LEAK, None, leaks.retried, ALONE),
    "leak by timeout": Kind(LEAK, None, leaks.timeouts, ALONE),
    "leak by user": Kind(LEAK, None, leaks.users, ALONE),
    "leak by flush": Kind(LEAK, None, leaks.flushes, ALONE),
    "leak of a watcher": Kind(LEAK, None, leaks.watched, ALONE),
    "leak of bodies, chunks": Kind(LEAK, None, leaks.bodies, ALONE, step_kib=CHUNKS),
    "plain leak in steps": Kind(LEAK, None, constant, BESIDE, step_kib=STEPS),
    "leak, last answer": Kind(LEAK, filling.answers, leaks.retried, (4.0, 8.0)),
    "leak of a release": Kind(LEAK, filling.answers, leaks.released, ALONE, steady=False),
    "leak that copies": Kind(LEAK, None, leaks.copied, ALONE, steady=False),
    "start, leak": Kind(LEAK, filling.started, leaks.bodies, ALONE),
    "nursery, leak": leak_beside(bounded.nursery, leaks.bodies),
    "scavenged heap, leak": leak_beside(bounded.scavenged, constant),
    "cached blocks, leak": leak_beside(bounded.cached, leaks.retried),
    "leases, leak": leak_beside(bounded.leases, leaks.users),
    "cache by frequency, leak": leak_beside(bounded.frequent, constant),
    "uploads, leak": leak_beside(bounded.uploads, leaks.bodies, CHUNKS),
    "two settings, leak": leak_beside(bounded.canary, leaks.timeouts),
    "replaced workers, leak": leak_beside(bounded.workers, constant),
    "written pages, leak": leak_beside(bounded.pages, leaks.bodies),
    "languages, leak": leak_beside(bounded.locales, leaks.flushes),
    "tables, leak": leak_beside(bounded.frames, leaks.watched),
    "files up to a quota, leak": leak_beside(filling.quota, leaks.bodies),
    "lazy modules, leak": leak_beside(filling.lazy, constant),
}
"""By name."""
