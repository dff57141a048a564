"""The thresholds of the judge in one table, each with what it protects.

Beside them stand those of the curve that the sidecar judges by itself (`truemem.verdict`), the tests over all
environments of a function (`fleet`) and those that tell clocks apart (`clocks`). KiB and MiB are memory; a share is a
part of one.
"""

from __future__ import annotations

HALF = 0.5
"""What explains, keeps or has at least half of something is most of it: in every question of this kind."""
NEAR = 0.9
"""A limit is near from this part on."""

# ---- what is kept, by settled readings ----

PASSES = 3
"""Differences that a verdict needs. Of more, the first third is left out: a function may still warm up in it."""
GROWS_KIB = 0.5
"""Growth per invocation is a leak by the low end of its interval from here on, and by itself from GATE_KIB on: AWS's
own clients keep 0.2 to 0.3 KiB."""
GOES_ON, ENDED_SHARE = 0.7, 0.35
"""Growth goes on if what came late is this part of the mean: a cache of random keys is less than three quarters full
then. It has ended if it is less than the other."""
EVEN = 0.6
"""Growth in steps: as much in the second half as in the quarter before it, by this part; and its parts vary by no
more."""
LARGE_KIB, CACHE_KIB = 28.0, 32 * 1024.0
"""What grows by more than this may be a cache that fills, whose bound cannot be read, until it has grown by so much."""
FILLS = 0.1
"""A cache fills if it gains so many entries in an invocation."""
JVM_KIB = 1024
"""What a JVM's own compiler and its pools have of malloc moves by up to 0.6 MiB (8 programs)."""

# ---- which cause ----

GREW_KIB, GREW_SHARE = 4096, 0.05
"""Memory has grown if it has by both: what has stopped, a cache that has filled, a heap before it is collected first, a
runtime's own native memory while it warms up."""
HELD_MIB, HELD_SHARE = 16.0, 0.2
"""Hoarding without growth: so much is held, and this share of all that malloc has. Every heap keeps some for reuse."""
PER_BLOCK = 1.5
"""Python's blocks per invocation below which they do not grow: AWS's client keeps one (its trace id). What is kept is
native then, or objects above 512 bytes, for which Python asks malloc (a `bytes` or `str` has nothing else)."""
OF_OBJECTS = 0.25
"""Python's objects hold what grows if their blocks explain this part of it."""
TOLD = 0.2
"""A part is told if it explains this much: native memory beside a collected heap of what RSS has risen by (the heap
touches what it has for the first time as well); a kind of events of what the one keeps that keeps most."""
CACHED = 0.25
"""Page cache is named if it is this part of the memory size."""
HABIT = 2
"""One may be chance, so many are a habit: kills, or the steps of a count in each half."""
GO_SHARE = 0.8
"""Part of the memory size that is a good limit for a heap in Go: what is beside it needs some."""
GO_BESIDE = 1 / 32
"""What the collector of Go has beside a heap, as a part of it (two bits for each eight bytes, until Go 1.21)."""
SOON = 1000
"""Invocations in which garbage fills the memory before Go collects it all the same, two minutes after the last time."""

# ---- a collected heap that nothing settles ----

FEWEST, MOST_LEVELS = 4, 24
"""Major collections that show what is live; levels that more of them are made into."""
TAIL_READINGS = 10
"""Readings whose median is a level."""
GROWTH_MIB, GROWTH_SHARE = 2.0, 0.02
"""A level has grown if the difference is more than both."""
ABOVE = 1.5
"""Growth is more than so many times what the levels go up and down by."""
LAZY_SHARE = 0.1
"""A heap is lazy if RSS has risen by this part; a cache explains that if it is this part of it."""
OUTSIDE_SHARE = 0.4
"""What is outside of the heap is worth a sentence, though it may stop, if it is this part of what RSS has risen by."""
HEAP_SHARE = 0.03
"""What the collector itself keeps of a heap (cards, marks) is less than this part: native memory has to grow by
more."""
FULL_OLD_SHARE = 0.6
"""Java before 25 does not count what is live in the young generation. Where the old one is full, at two thirds of the
limit, there is some."""
STEP_MIB = 1.0
"""A heap that takes less from the system has not grown."""

# ---- RSS alone ----

MATTERS_KIB = 4.0
"""Growth per invocation that matters to a gate where only curves are known: smaller growth is often a runtime's."""
SURE = 0.87
"""Confidence from which `growing` is certain enough for a gate."""
LONG_LIFE_INVOCATIONS, LAST_LEVELS = 1024, 32
"""Levels of the look at a life of so many invocations. With more levels its interval is too narrow."""
SHORT_LIFE, SEVERAL_LIVES = 8, 3
"""Least length of a life that ran out of memory; so many are judged together, if one alone is not enough."""
COMPARED, LITTLE = 96, 0.25
"""An environment that ran out of memory gets memory for so many invocations: the tracer's looks are 20 to 40 apart. It
had kept little if that is less than this part of what it had free at its begin."""
