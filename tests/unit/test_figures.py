"""The figures that the pages name are those of the code."""

from __future__ import annotations

import pytest
from truemem.config import VCPU_MIB
from truemem.lifecycle.segment_loop import BUSY_NS
from truemem.linux.kernel import FAULT_KIB, HUGE_FAULT_KIB
from truemem.linux.process_table import KEPT_PROCESSES
from truemem.linux.process_table import MOST as MOST_PROCESSES
from truemem.measure import process_reader, sampling_schedule
from truemem.measure.environment_memory import AT_LIMIT
from truemem.measure.level_sampler import TICK_NS
from truemem.measure.race import KERNEL_SLACK_KIB
from truemem.platform.proxy_sockets import SPARE
from truemem.platform.runtime_proxy import PIECE
from truemem.records import drift, leak_verdict, trend
from truemem.records.emf import VALUES
from truemem.records.journal import SIZE
from truemem.records.pending_records import START_MS, WAITING
from truemem.records.publisher import LINE_LIMIT
from truemem.records.request_overlap import RUNNING
from truemem.records.stdout_writer import BACKLOG
from truemem.support.log import LINES
from truemem_workbench.aws.cloudwatch import ROWS
from truemem_workbench.check.invocations import INVOCATIONS, WARM_UP
from truemem_workbench.page.html import ROOM
from truemem_workbench.report.actions import NEAR
from truemem_workbench.report.peak_percentiles import ALIKE, LARGE_MIB, MANY
from truemem_workbench.report.sizing import ENOUGH, HEADROOM, STEP_MIB
from truemem_workbench.report.store import BATCH, MEMORY_MIB
from truemem_workbench.support.untrusted_text import MOST_BYTES, MOST_DEPTH, WRITER_S

from tests.unit.test_claims import DOCS, page_text, plain

NUMBERS = {8: "eight", 12: "twelve", 6: "sixth", 20: "twentieth"}
MS = 1_000_000

FIGURES = {
    "how-it-measures.md": [
        f"widens the upper bound by {FAULT_KIB} KiB ({HUGE_FAULT_KIB // 1024} MiB where",
        f"the kernel's own slack ({KERNEL_SLACK_KIB} KiB)",
        f"up to {START_MS} ms of running time",
        f"until {WAITING + 1} lines wait",
        f"no more than {PIECE // 1024} KiB for each direction",
        f"looks for new processes every {sampling_schedule.WATCH_NS // MS} ms",
        f"first {sampling_schedule.CHILD_NS // MS} ms after the last look",
        f"after a {NUMBERS[sampling_schedule.CHILD_FRACTION]} of the child's life",
        f"at most {sampling_schedule.SAVED_NS // MS} ms are saved up",
        f"{NUMBERS[process_reader.AT_ONCE]} processes are read, the runtime first",
        f"A tick reads for {TICK_NS // MS} ms at most",
        f"for {sampling_schedule.MOST_REST_NS // MS} ms at most",
        f"More than {MOST_PROCESSES:,} processes",
        f"{RUNNING:,} requests may run at once",
        f"Segments are {BUSY_NS // MS} ms long while requests run",
        f"after each {NUMBERS[sampling_schedule.AGE_FRACTION]} of the time already run",
        f"at least every {sampling_schedule.SPARSE_NS // MS} ms",
        f"looks every {sampling_schedule.EXACT_NS // MS} ms at most",
        f"reach the limit within {sampling_schedule.URGENT_NS // MS} ms",
        f"up to {sampling_schedule.OVERDRAFT_NS // MS} ms of CPU time in advance",
        f"file of {SIZE // 1024} KiB there",
    ],
    "configuration.md": [f"a file of {SIZE // 1024} KiB", f"up to {VALUES} share a line"],
    "metrics.md": [
        f"Before {leak_verdict.GROWING_FROM} invocations: never",
        f"From {leak_verdict.GROWING_FROM} to {leak_verdict.URGENT_UNTIL - 1:,}: only if it is urgent",
        f"within {leak_verdict.NEAR} times the invocations so far",
        f"From {leak_verdict.URGENT_UNTIL:,}: whatever goes on growing by {leak_verdict.SLOW_KIB} KiB per invocation",
        f"twice as wide as the curve says at {trend.SHORT} invocations",
        f"about every {drift.EVERY}th line",
        f"held {AT_LIMIT:.0%} of the limit".replace("%", " %"),
        f"the line would exceed {LINE_LIMIT // 1024} KiB",
    ],
    "patterns.md": [
        f"before {leak_verdict.GROWING_FROM} invocations",
        f"not before {leak_verdict.URGENT_UNTIL:,}",
    ],
    "reliability.md": [f"{BACKLOG} are kept", f"reserves {SPARE} descriptors"],
    "security.md": [
        f"of {LINES} lines at most",
        f"function's first {KEPT_PROCESSES} processes",
        f"nested {MOST_DEPTH} deep at most",
        f"stops waiting after {WRITER_S:.0f} s",
        f"may have {MOST_BYTES >> 20} MiB",
    ],
    "scale.md": [f"batches of about {BATCH:,} lines", f"may use {MEMORY_MIB} MiB", f"It shows {ROWS:,} rows"],
    "page.md": [f"A page holds {ROOM:,} invocations"],
    "check.md": [f"--invocations ({INVOCATIONS})", f"--warm-up ({WARM_UP})"],
    "report.md": [
        f"at {NEAR:.0%} of the memory size".replace("%", " %"),
        f"{1 + HEADROOM:.1f}, rounded up to",
        f"the next {STEP_MIB} MB",
        f"fewer than {ENOUGH} invocations",
        f"{LARGE_MIB * 1024:.0f} KiB or more",
        f"only if there are {MANY} of them",
        f"a factor of {ALIKE}",
        f"{VCPU_MIB:,} MB buy one vCPU",
    ],
}


@pytest.mark.parametrize("page", FIGURES)
def test_figures_are_those_of_the_code(page: str) -> None:
    text = page_text(DOCS / page)
    assert [words for words in FIGURES[page] if plain(words) not in text] == []
