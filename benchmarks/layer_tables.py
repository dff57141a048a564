"""The layer's figures as tables, and beside what we aim at."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import added, cold_start, running
from benchmarks.contenders import FLOOR, GO, OURS, PLAIN, SOURCED, UNSAVED
from benchmarks.cost import Cost, metrics_by_emf
from benchmarks.sizes import Sizes

GO_AIMS = 1.0, 1.3
"""Times that of AWS's sample in Go: register, warm and cold, and the first `next`."""
FLOOR_AIMS = 8.0, 12.0
"""The same against static C that does nothing else."""

Section = tuple[str, Sequence[str], list[list[str]], str]
"""Title, headings, rows, and what they mean."""


def start_section(rows: Sequence[cold_start.Start]) -> Section:
    """Cold start."""
    cells = [
        [
            row.name,
            f"{row.register_median:.2f} ({row.register_min:.2f})",
            f"{row.next_median:.2f} ({row.next_min:.2f})",
            f"{row.cpu_median:.1f}",
            *(
                ["", "", ""]
                if row.cold_register_median is None
                else [f"{row.cold_register_median:.1f}", f"{row.cold_next_median:.1f}", f"{row.cold_read_kib:,.0f}"]
            ),
            *(f"{size:.1f}" for size in (row.rss, row.pss, row.private_dirty)),
        ]
        for row in rows
    ]
    headings = ("", "exec to register, ms", "exec to `next`, ms", "CPU", "register, cold", "`next`, cold", "KiB read")
    return (
        "Cold start",
        (*headings, "RSS, MiB", "PSS", "private dirty"),
        cells,
        f"Medians (minima) of {rows[0].rounds}, by turns; as the API's side sees it. CPU: ms until the first `next`. "
        "Cold: the file's pages dropped from the page cache before; read from disk before register. Memory after the "
        "first `next`.",
    )


def short_start(rows: Sequence[cold_start.Start]) -> Section:
    """The columns of the cold start that a user asks for."""
    title, headings, cells, _ = start_section(rows)
    few = (0, 1, 2, headings.index("register, cold"), headings.index("PSS"))
    return (
        title,
        [headings[column] for column in few],
        [[row[column] for column in few] for row in cells if row[0] not in (UNSAVED, SOURCED)],
        f"Medians (minima) of {rows[0].rounds}, ms and MiB. Cold: the file is not in the page cache.",
    )


def answer_section(rows: Sequence[running.Answer]) -> Section:
    """An invocation."""
    cells = [
        [row.function, f"{row.answer_p50 / 1000:.2f}", f"{row.answer_p99 / 1000:.2f}", f"{row.cpu_ms:.2f}"]
        for row in rows
    ]
    headings = ("function", "INVOKE to `next`, ms p50", "p99", "CPU of an invocation, ms")
    return (
        "An invocation, and how it grows with the function",
        headings,
        cells,
        f"{rows[0].invocations} invocations each. CPU time is the sidecar's, telemetry and the line included, hardly "
        "sampling (TRUEMEM_CPU_BUDGET=0.01).",
    )


def growth_section(rows: Sequence[running.Growth]) -> Section:
    """Its own memory."""
    cells = [
        [
            row.name,
            *(f"{size:.1f}" for size in (row.pss, row.private_dirty)),
            f"{row.growth_kib:.0f}",
            f"{row.descriptors}",
        ]
        for row in rows
    ]
    headings = ("", "PSS, MiB", "private dirty, MiB", "RSS grows by, KiB", "descriptors")
    return (
        "Its own memory",
        headings,
        cells,
        f"PSS and private dirty after 1,000 invocations; growth over {rows[0].invocations:,} more.",
    )


def sampling_section(rows: Sequence[running.Sampling]) -> Section:
    """Sampling."""
    cells = [
        [
            f"{row.memory_mib} MiB",
            f"{row.share_percent:.2f} %",
            f"{row.worst_percent:.2f} %",
            "yes" if row.cgroup else "not permitted",
        ]
        for row in rows
    ]
    return (
        "Sampling",
        ("memory size", "share", "in the worst second", "in a cpu cgroup"),
        cells,
        f"CPU time of the sidecar in one invocation of {rows[0].seconds:g} s beyond that of one without sampling, in "
        "percent of the CPU that the memory size buys. The default budget is 1 %.",
    )


def added_section(rows: Sequence[added.Added]) -> Section:
    """What the function sees."""
    cells = [
        [
            row.handler,
            *(f"{without:.2f} / {attached:.2f}" for without, attached in (row.duration_p50, row.duration_p99)),
            f"{row.difference:+.3f} ± {row.error:.3f}",
            " / ".join(f"{ms:.2f}" for ms in row.after_p50),
        ]
        for row in rows
    ]
    headings = ("handler", "duration p50, ms", "p99", "difference of the means", "after the runtime's end, p50")
    return (
        "Added to the function",
        headings,
        cells,
        f"Without / with the sidecar, {rows[0].invocations} invocations each, by turns in blocks of {added.BLOCK}; the "
        "difference ± one standard error from block to block. After the runtime's end, until the invocation's: "
        "without / with the floor, which never keeps anything waiting / with the sidecar.",
    )


def cost_section(costs: Sequence[Cost], line_bytes: float) -> Section:
    """In dollars."""
    cells = [
        [
            f"{row.memory_mib:,} MiB",
            f"{row.memory_percent:.1f} %",
            f"{row.delay_at_most_ms:.1f} ms",
            f"${row.duration_at_most:.3f}",
            f"${row.logs:.2f}",
            f"${row.cold_starts:.3f}",
        ]
        for row in costs
    ]
    headings = ("function", "of its memory", "delay at most", "billed time at most", "log lines", "cold starts")
    return (
        "What it costs",
        headings,
        cells,
        "Per million invocations; cold starts per million of those, each longer by exec to register. At most: if all "
        f"of the sidecar's CPU time is taken from a function that computes all the time. Lines of {line_bytes:.0f} "
        f"bytes. Besides: four metrics for each function, ${metrics_by_emf(1):.2f} a month.",
    )


def sizes_section(sizes: Sequence[Sizes]) -> Section:
    """The files."""
    cells = [[row.architecture, f"{row.zip_bytes / 1e6:.2f}", f"{row.unpacked_bytes / 1e6:.2f}"] for row in sizes]
    return "Size", ("architecture", "zip, MB", "unpacked, MB"), cells, "The whole layer, notices included."


def _of_start(starts: Sequence[cold_start.Start]) -> list[tuple[str, str, str, bool]]:
    """Beside AWS's sample in Go, or without one beside the floor. Medians."""
    by_name = {row.name: row for row in starts}
    ours, other = by_name[OURS], by_name.get(GO) or by_name[FLOOR]
    register, following = GO_AIMS if other.name == GO else FLOOR_AIMS
    ratios = (
        ("exec to register", register, ours.register_median, other.register_median),
        ("the same, cold", register, ours.cold_register_median or 0, other.cold_register_median or 1),
        ("exec to first `next`", following, ours.next_median, other.next_median),
    )
    return [
        (
            f"{name}, beside {other.name}",
            f"{aim:g}",
            f"{mine / others:.2f} ({mine:.1f} ms, {others:.1f} ms)",
            mine <= aim * others,
        )
        for name, aim, mine, others in ratios
    ]


def aims(
    starts: Sequence[cold_start.Start],
    growths: Sequence[running.Growth],
    answers: Sequence[running.Answer],
    samplings: Sequence[running.Sampling],
    addeds: Sequence[added.Added],
    sizes: Sequence[Sizes],
) -> list[list[str]]:
    """The figures that we have set ourselves: aim, reached, met or not."""
    by_name = {row.name: row for row in starts}
    ours, plain = by_name[OURS], by_name[PLAIN]
    grown, answer = growths[0], answers[0]
    worst = max(abs(row.difference) / row.error if row.error else 0.0 for row in addeds)
    waits = max(row.after_p50[2] - row.after_p50[1] for row in addeds)
    rows: list[tuple[str, str, str, bool]] = [
        *_of_start(starts),
        (
            "exec to register beside a usual extension",
            "1/15",
            f"1/{plain.register_median / ours.register_median:.0f}",
            plain.register_median / ours.register_median >= 15,
        ),
        ("CPU to the first `next`", "10 ms", f"{ours.cpu_median:.1f} ms", ours.cpu_median <= 10),
        ("PSS after 1,000 invocations", "5.0 MiB", f"{grown.pss:.2f} MiB", grown.pss <= 5),
        ("private dirty", "2.5 MiB", f"{grown.private_dirty:.1f} MiB", grown.private_dirty <= 2.5),
        (
            f"own growth over {grown.invocations:,} invocations",
            "64 KiB",
            f"{grown.growth_kib:.0f} KiB",
            grown.growth_kib <= 64,
        ),
        ("INVOKE to `next`, p50", "0.5 ms", f"{answer.answer_p50 / 1000:.2f} ms", answer.answer_p50 <= 500),
        ("INVOKE to `next`, p99", "2 ms", f"{answer.answer_p99 / 1000:.2f} ms", answer.answer_p99 <= 2000),
        ("CPU of an invocation, outside sampling", "0.6 ms", f"{answer.cpu_ms:.2f} ms", answer.cpu_ms <= 0.6),
        *(
            (
                f"sampling at {row.memory_mib} MiB, in any second",
                "1 %",
                f"{row.worst_percent:.2f} %",
                row.worst_percent <= 1,
            )
            for row in samplings
        ),
        ("added to the function's duration", "none", f"at most {worst:.1f} standard errors", worst <= 2),
        ("added after the runtime is done, beside the floor", "0", f"{waits:+.2f} ms", waits <= 0.1),
        *(
            (
                f"zip / unpacked, {row.architecture}",
                "1.6 / 6.0 MB",
                f"{row.zip_bytes / 1e6:.2f} / {row.unpacked_bytes / 1e6:.2f} MB",
                row.zip_bytes <= 1.6e6 and row.unpacked_bytes <= 6e6,
            )
            for row in sizes
        ),
    ]
    return [[name, aim, reached, "yes" if met else "**no**"] for name, aim, reached, met in rows]
