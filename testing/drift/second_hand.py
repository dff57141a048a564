"""Random curves of the resident memory of a function after each invocation, with the truth.

Their author had read nothing of the judge that they are for (benchmarks/second_hand_curves.py).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rng = np.random.Generator
MIB, PAGE = 1024.0, 4.0  # KiB
LAMBDA_SIZES_MIB = (128, 256, 512, 768, 1024, 1536, 1769, 2048, 3008, 4096, 5120, 6144, 8192, 10240)


class Truth(NamedTuple):
    """What is known of a curve."""

    leaks: bool
    kib_per_invocation: float  # mean of what is kept for ever from `starts_at` on (a GC's heap grows faster than that)
    bounded_at: int  # invocation at which the bounded thing (also one beside a leak) is full; 0 if nothing fills
    kind: str
    limit_mib: int | None = None
    starts_at: int = 0  # invocation at which a leak begins; 0 for bounded


Curve = Callable[[Rng, Floats], NDArray[Any]]
Kind = Callable[[Rng, int], tuple[Floats, Truth]]


def log_uniform(rng: Rng, low: float, high: float) -> float:
    """Return a number whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def wander(rng: Rng, n: int, memory: float) -> Floats:
    """Return a stationary walk of deviation 1 that forgets in about `memory` invocations."""
    keep, walk = float(np.exp(-1.0 / memory)), rng.normal(size=n)
    for t in range(1, n):
        walk[t] = keep * walk[t - 1] + np.sqrt(1.0 - keep * keep) * walk[t]
    return walk


def day_night(rng: Rng, n: int) -> Floats:
    """Return the traffic of four to twelve days, between 0 and 1."""
    phase = 2.0 * np.pi * (rng.uniform(4.0, 12.0) * np.arange(n) / n + rng.random())
    return np.asarray((0.5 + 0.5 * np.sin(phase)) ** rng.uniform(0.7, 2.5), dtype=np.float64)


def stay(rng: Rng, n: int, states: int, mean_length: float) -> NDArray[np.int64]:
    """Return the state, at each invocation, of something that stays in a state for a while (a model, a tenant)."""
    return rng.integers(0, states, n)[np.cumsum(rng.random(n) < 1.0 / max(mean_length, 1.0))]


def saw(rng: Rng, n: int, teeth: float, unevenness: float) -> Floats:
    """Return a saw between 0 and 1 that grows by uneven amounts and falls at once."""
    grown = np.cumsum(rng.lognormal(0.0, unevenness, n))
    return np.asarray((grown / grown[-1] * min(teeth, n / 4.0) + rng.random()) % 1.0, dtype=np.float64)


def table(kept: Floats) -> NDArray[Any]:
    """Return the levels of entries and of their hash table, whose slots are doubled when they are full."""
    return np.asarray(0.6 * kept + 8.0 * 2.0 ** np.ceil(np.log2(np.maximum(kept / 20.0, 1.0))))


def steps(rng: Rng, t: Floats, when: Floats, spread: float) -> NDArray[Any]:
    """Return the sum of steps at the times `when`, of log-normal sizes."""
    return np.asarray(rng.lognormal(0.0, spread, len(when)) @ (t >= when[:, None]))


def known(rng: Rng, t: Floats, keys: float, skew: float) -> Floats:
    """Return how many keys a cache holds, of `keys` per invocation until t = 1; it is full then unless they are few."""
    full = int(np.searchsorted(t[:-1], 1.0))
    weights = np.arange(1, max(3, int(keys * full)) + 1, dtype=float) ** -skew
    first = np.unique(rng.choice(len(weights), len(t), p=weights / weights.sum()), return_index=True)[1]
    count = np.cumsum(np.bincount(first, minlength=len(t)))
    return np.minimum(count, count[full] if keys > 0.3 else np.inf)


# What a leak keeps at each invocation (only the proportions matter), by the number of the invocation.
AMOUNTS: dict[str, Curve] = {
    "plain": lambda g, i: np.ones(len(i)),
    "one_in_k": lambda g, i: i % g.integers(2, min(60, len(i) // 10)) == 1,
    "random_amounts": lambda g, i: g.gamma(g.uniform(0.2, 3.0), size=len(i)),
    "kept_lognormal": lambda g, i: g.lognormal(0.0, g.uniform(0.8, 1.6), len(i)),
    "kept_pareto": lambda g, i: np.minimum(g.pareto(g.uniform(1.3, 2.5), len(i)), 30.0),
    "by_errors": lambda g, i: g.random(len(i)) < log_uniform(g, 0.01 + 10.0 / len(i), 0.2),
    "by_error_bursts": lambda g, i: (stay(g, len(i), 4, len(i) / 80) == 0) * (g.random(len(i)) < 0.7),
    "by_tenants": lambda g, i: g.lognormal(0.0, 1.0, 8)[stay(g, len(i), 8, log_uniform(g, 1.0, len(i) / 50))],
    "by_timer_more_at_night": lambda g, i: 0.1 + (1.0 - day_night(g, len(i))) ** 3,
    "late": lambda g, i: i >= len(i) * g.uniform(0.15, 0.5),
    "after_free_heap_is_used": lambda g, i: g.gamma(1.0, size=len(i)) * (i >= len(i) * g.uniform(0.05, 0.4)),
}
# How a leak is seen: the least and the most it keeps in all (MiB), and the levels by what is kept (KiB).
SHOWN: dict[str, tuple[float, float, Curve]] = {
    "as_it_is": (1, 300, lambda g, kept: kept),
    "by_pages": (0.25, 3, lambda g, kept: np.ceil(kept / PAGE) * PAGE),
    "by_malloc_132k": (2, 20, lambda g, kept: np.ceil(kept / 132.0) * 132.0),
    "by_pymalloc_1m": (8, 80, lambda g, kept: np.ceil(kept / MIB) * MIB),
    "by_hugepages": (16, 160, lambda g, kept: np.ceil(kept / MIB / 2) * MIB * 2),
    "by_arenas_64m": (256, 640, lambda g, kept: kept + np.ceil(kept / MIB / 64) * MIB * g.uniform(1, 30)),
    "by_table_doubling": (2, 200, lambda g, kept: table(kept)),
    "under_high_water": (2, 200, lambda g, kept: np.maximum.accumulate(kept + kept[-1] * g.beta(1, 15, len(kept)))),
    "slow_in_heavy_noise": (1, 30, lambda g, kept: kept + kept[-1] * g.uniform(0.1, 0.4) * g.gamma(3, size=len(kept))),
}
# What fills: the least and the most it takes (MiB), and the curve by a time t that is 1 when it should be full.
FILLS: dict[str, tuple[float, float, Curve]] = {
    "flat": (1, 20, lambda g, t: np.ones(len(t))),  # full at once
    "lru_new_keys": (2, 150, lambda g, t: np.minimum(t, 1.0)),
    "lru_uniform": (2, 150, lambda g, t: known(g, t, g.uniform(0.5, 3.0), 0.0)),
    "lru_zipf": (2, 150, lambda g, t: known(g, t, g.uniform(1.0, 20.0), g.uniform(0.8, 1.3))),
    "interned_strings": (1, 30, lambda g, t: table(known(g, t, 0.18, 0.0) * g.uniform(1.0, 20.0))),
    "tenants_state": (5, 150, lambda g, t: known(g, t, g.uniform(0.04, 0.1), 0.4)),
    "lazy_imports": (4, 100, lambda g, t: steps(g, t, g.beta(0.4, 1.5, g.integers(3, 14)), 0.8)),
    "connection_pool": (1, 20, lambda g, t: steps(g, t, g.beta(0.5, 1.5, g.integers(4, 33)), 0.05)),
    "thread_pool": (1, 20, lambda g, t: steps(g, t, np.linspace(0.01, 1.0, g.integers(4, 65)), 0.05)),
    "hugepage_collapse": (8, 80, lambda g, t: steps(g, t, g.random(g.integers(4, 40)), 0.0)),
    "plateau_steps": (4, 150, lambda g, t: steps(g, t, g.uniform(0.05, 1.0, g.integers(2, 7)), 0.7)),
    "jit_warm_up": (4, 80, lambda g, t: np.ceil(g.uniform(20, 200) * (1.0 - np.exp(-5.5 * t)))),
    "mmap_touched": (8, 200, lambda g, t: 1.0 - np.exp(-5.5 * t)),
    "fragmentation_log": (2, 60, lambda g, t: np.log1p(np.minimum(t, 1.0) * log_uniform(g, 10, 300))),
    "fragmentation_sqrt": (2, 60, lambda g, t: 1.0 - np.exp(-5.5 * np.sqrt(t))),
    "glibc_arenas": (4, 150, lambda g, t: (1 - np.exp(-20 * (t - g.random((g.integers(2, 9), 1))).clip(0))).sum(0)),
    "ratchet_lognormal": (2, 80, lambda g, t: np.maximum.accumulate(g.lognormal(0.0, g.uniform(0.3, 1.2), len(t)))),
    "ratchet_pareto": (2, 80, lambda g, t: np.maximum.accumulate(g.pareto(g.uniform(0.8, 2.5), len(t)).clip(0, 30))),
    "spike_kept": (8, 150, lambda g, t: t >= 1.0),
    "spike_decays": (8, 150, lambda g, t: (t >= 1.0) * (0.2 + np.exp(-g.uniform(4, 60) * (t - 1.0)))),
}
# What comes and goes: the least and the most it takes (MiB), and the curve by any t.
PASSES: dict[str, tuple[float, float, Curve]] = {
    "random_walk": (3, 80, lambda g, t: 2.0 + np.tanh(0.6 * wander(g, len(t), len(t) / g.uniform(30.0, 200.0)))),
    "day_night": (1, 80, lambda g, t: day_night(g, len(t)) * g.lognormal(0.0, 0.1, len(t))),
    "payloads_lognormal": (4, 100, lambda g, t: g.lognormal(0.0, g.uniform(0.5, 1.5), len(t)).clip(0.0, 20.0)),
    "payloads_pareto": (4, 100, lambda g, t: g.pareto(g.uniform(1.1, 2.5), len(t)).clip(0.0, 40.0)),
    "batch_jobs": (4, 100, lambda g, t: (np.arange(len(t)) % g.integers(3, len(t) // 10) == 2) * g.uniform(0.7, 1.0)),
    "retries": (4, 100, lambda g, t: np.convolve(g.exponential(1.0, len(t)) ** 4, 0.6 ** np.arange(20))[: len(t)]),
    "model_swap": (20, 250, lambda g, t: g.uniform(0.3, 2.5, 4)[stay(g, len(t), 4, len(t) / 60)]),
    "log_buffer": (0.5, 16, lambda g, t: saw(g, len(t), log_uniform(g, 10, 200), 0.1)),
    "workers_recycled": (4, 100, lambda g, t: saw(g, len(t), log_uniform(g, 8, 25), 1.0)),
}
# Collectors: how many times the live data the heap grows to, and the share of the garbage given back to the system.
COLLECTORS = {"v8": (1.6, 0.9), "jvm_serial": (1.5, 0.0), "jvm_g1": (1.4, 0.5), "go": (2.0, 0.3), "dotnet": (1.3, 0.95)}
BESIDE = ("lru_zipf", "ttl_cache", "lazy_imports", "jit_warm_up", "glibc_arenas", "ratchet_pareto", "spike_kept")


def truth_of_leak(kept: Floats, kind: str) -> Truth:
    """Return the truth by what is never freed; a leak begins late if nothing is kept before."""
    start = max(int(np.argmax(kept > kept[0] + 1e-6 * kept[-1])) - 1, 0)
    return Truth(True, float(kept[-1] - kept[start]) / (len(kept) - 1 - start), 0, kind, starts_at=start)


def leak(rng: Rng, n: int, kind: str, amounts: str = "plain", shown: str = "as_it_is") -> tuple[Floats, Truth]:
    """Leak by one of AMOUNTS, seen by one of SHOWN."""
    low, high, levels = SHOWN[shown]
    kept = np.cumsum(AMOUNTS[amounts](rng, np.arange(n, dtype=float)), dtype=float)
    kept *= MIB * log_uniform(rng, low, max(2 * low, min(high, 0.5 * n))) / kept[-1]
    return levels(rng, kept), truth_of_leak(kept, kind)


def bounded(rng: Rng, n: int, kind: str) -> tuple[Floats, Truth]:
    """Fill by one of FILLS, or come and go by one of PASSES; entries that are replaced are a churn that wanders."""
    low, high, curve = FILLS.get(kind) or PASSES[kind]
    t = np.cumsum(rng.gamma(log_uniform(rng, 0.5, 20.0), size=n))
    shape = np.asarray(curve(rng, (t - t[0]) / t[-1] / rng.uniform(0.1, 0.55)), dtype=float)
    full_at = int(np.argmax(shape >= shape[-1] - 0.005 * (shape[-1] - shape[0]))) if kind in FILLS else 0
    churn = 1.0 + rng.choice([0.0, 0.003, 0.02]) * wander(rng, n, rng.uniform(1.0, n / 50.0))
    return log_uniform(rng, low, high) * MIB * shape / shape.max() * churn, Truth(False, 0.0, full_at, kind)


def ttl_cache(rng: Rng, n: int, kind: str) -> tuple[Floats, Truth]:
    """Keep entries for a time, under traffic by day and night: as many as came within that time."""
    clock = np.cumsum(rng.exponential(1.0, n) * (1.2 - day_night(rng, n) * rng.uniform(0.0, 0.8)))
    ttl = clock[-1] * rng.uniform(0.05, 0.4)
    entries = np.arange(1, n + 1) - np.searchsorted(clock, clock - ttl)
    return entries * log_uniform(rng, 8, 400 * MIB / n), Truth(False, 0.0, int(np.searchsorted(clock, ttl)), kind)


def collected(rng: Rng, n: int, kind: str, runtime: str, leaks: bool, longest: float = 0.12) -> tuple[Floats, Truth]:
    """Saw between the live data and the heap at which the collector runs, with or without a leak in the live data."""
    factor, given_back = COLLECTORS.get(runtime, (rng.uniform(2.0, 6.0), 0.05))
    kept = np.linspace(0.0, log_uniform(rng, 2, min(120.0, 0.5 * n)) * MIB if leaks else 0.0, n)
    live = log_uniform(rng, 4, 40) * MIB + kept
    garbage = rng.gamma(3.0, 1 / 3, n) * (factor - 1.0) * live.mean() / (n * log_uniform(rng, 0.1 * longest, longest))
    heap, goal, peak, full_at, levels = float(live[0]), float(live[0]) * factor, 0.0, 0, np.zeros(n)
    for t in range(n):
        heap += garbage[t] + kept[t] - kept[max(t - 1, 0)]
        peak = max(peak, min(heap, goal))
        if heap >= goal:
            full_at, goal = full_at or t, float(live[t]) * factor
            heap = float(live[t]) * rng.uniform(1.0, 0.8 + 0.2 * factor)  # some garbage survives
        levels[t] = given_back * heap + (1.0 - given_back) * peak
    return levels, truth_of_leak(kept, kind) if leaks else Truth(False, 0.0, full_at or n, kind)


def leak_beside(rng: Rng, n: int, kind: str, other: str) -> tuple[Floats, Truth]:
    """Leak in a common way beside a bounded thing, which is at most as large as the whole leak."""
    amounts = str(rng.choice(["plain", "one_in_k", "random_amounts", "by_errors", "kept_lognormal"]))
    (levels, truth), (beside, of_beside) = leak(rng, n, kind, amounts), KINDS[other](rng, n)
    scale = min(1.0, float(levels[-1]) / max(float(np.ptp(beside)), 1.0))
    return levels + scale * beside, truth._replace(bounded_at=of_beside.bounded_at)


KINDS: dict[str, Kind] = {
    **{kind: partial(bounded, kind=kind) for kind in (*FILLS, *PASSES)},
    **{f"gc_{r}": partial(collected, kind=f"gc_{r}", runtime=r, leaks=False) for r in COLLECTORS},
    "gc_to_limit": partial(collected, kind="gc_to_limit", runtime="", leaks=False, longest=0.55),
    "ttl_cache": partial(ttl_cache, kind="ttl_cache"),
    **{f"leak_{how}": partial(leak, kind=f"leak_{how}", amounts=how) for how in AMOUNTS},
    **{f"leak_{how}": partial(leak, kind=f"leak_{how}", shown=how) for how in SHOWN if how != "as_it_is"},
    **{f"leak_in_{r}": partial(collected, kind=f"leak_in_{r}", runtime=r, leaks=True) for r in COLLECTORS},
    **{f"leak_beside_{o}": partial(leak_beside, kind=f"leak_beside_{o}", other=o) for o in (*BESIDE, *PASSES)},
}


def composed(seed: int, kind: str | None = None) -> tuple[Floats, Truth]:
    """Return the measured levels (KiB, whole pages) of a random or given kind, and the truth about them."""
    rng = np.random.default_rng(seed)
    kind, n = kind or str(rng.choice(list(KINDS))), round(log_uniform(rng, 128, 4096))
    draws = (KINDS[kind](rng, n) for _ in range(8))  # so that in most draws what is bounded has filled early enough
    levels, truth = next((draw for draw in draws if draw[1].bounded_at <= 0.6 * n), KINDS[kind](rng, n))
    if not truth.leaks and rng.random() < 0.25:  # something comes and goes beside it, as beside leaks
        levels = levels + bounded(rng, n, str(rng.choice(list(PASSES))))[0]
    if rng.random() < 0.5:  # the first invocations load what all need
        tau = rng.uniform(0.5, 4.0)
        levels = levels - log_uniform(rng, 1, 12) * MIB * np.exp(-np.arange(n) / tau)
        truth = truth._replace(bounded_at=max(truth.bounded_at, round(6 * tau)))
    sigma = log_uniform(rng, 1.0, min(2000.0, 0.3 * truth.kib_per_invocation * n if truth.leaks else np.inf))
    sigma *= rng.random() < 0.8  # some processes do not move at all
    noise = rng.normal(0.0, sigma, n) + rng.choice([0.0, 0.7]) * sigma * wander(rng, n, rng.uniform(2.0, n / 50.0))
    noise += sigma * rng.exponential(5.0, n) * (rng.random(n) < rng.choice([0.0, 0.01]))
    measured = np.floor(np.maximum(rng.uniform(20.0, 400.0) * MIB + levels + noise, 8 * MIB) / PAGE) * PAGE
    sizes = [size for size in LAMBDA_SIZES_MIB if size * MIB >= max(1.2 * measured[-1], 1.01 * measured.max())][:3]
    return measured, truth._replace(limit_mib=int(rng.choice(sizes)) if sizes and rng.random() < 0.5 else None)
