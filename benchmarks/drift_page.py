"""The tables of benchmarks/results/drift.md for one corpus."""

from __future__ import annotations

from collections.abc import Sequence

from truemem_workbench.testing.drift.corpus import BOUNDED, FILLING, Kind

from benchmarks import drift_shares as shares
from benchmarks.drift_methods import METHODS
from benchmarks.drift_series import ALONE, BESIDE, FORMS, GROUPS, LENGTHS, LIFE, Result, group_of
from benchmarks.drift_shares import percent
from benchmarks.publish import markdown

ABOUT = {
    "sealed": "No threshold was chosen by these curves: they only judge. Who wrote them knew the thresholds, and ran "
    "the verdict on them when all of them were final.",
    "open": "With those of `second_kinds` and `third_kinds`, which were sealed once. The verdict was tuned by these "
    "curves, the published methods were not: read this to see how much of the verdict's quality is tuning.",
}
BY_KIND = (1024, 4096)


def corpus_page(title: str, kinds: dict[str, Kind], results: Sequence[Result]) -> str:
    """The part of the page about one corpus."""
    each = len(results) // len(kinds)
    counts = ", ".join(f"{sum(group_of(kind) == group for kind in kinds.values())} {group}" for group in GROUPS)
    parts = [
        f"\n## The {title} corpus\n\n`truemem_workbench.testing.drift.{title}_kinds`: {len(kinds)} kinds ({counts}), "
        f"{each} series of {LIFE:,} invocations each. {ABOUT[title]} Kinds count alike in their group: the shares say "
        "which kinds were thought of, not how often they occur.",
        _by_length(results),
        _by_life(results),
        _intervals(results),
        _confidences(results),
        _by_kind(kinds, results),
    ]
    return "\n".join(parts)


def _by_length(results: Sequence[Result]) -> str:
    parts = [
        "\n### Called growing, by length\n\nAfter the first invocations of each life. Each series has its own memory "
        "limit, as below."
    ]
    for count in LENGTHS:
        rows = [
            [method, *(percent(shares.called(results, method, count, group)) for group in GROUPS)]
            for method in (*FORMS, *METHODS)
        ]
        parts += [f"\n{count:,} invocations:\n", markdown(["method", *GROUPS], rows)]
    return "\n".join(parts)


def _by_life(results: Sequence[Result]) -> str:
    rows = []
    for group in (BOUNDED, FILLING):
        of = [each for each in results if each.group == group]
        late = shares.share(each.heard.first is not None and each.heard.first > 1024 for each in of)
        rows.append([group, f"{len(of)}", percent(shares.accused(results, group)), percent(late)])
    ever = markdown(["does not leak", "lives", "ever called growing", "first after 1,024"], rows)
    rows = []
    for title, groups in ((ALONE, [ALONE]), (BESIDE, [BESIDE]), ("both", [ALONE, BESIDE])):
        lives = shares.killed(results, groups)
        before = shares.share(told is not None and told < end for end, told in lives)
        told = sorted(told / end for end, told in lives if told is not None)
        median = told[len(told) // 2] if told else None
        rows.append([title, f"{len(lives)}", percent(shares.told_in_time(lives)), percent(before), percent(median)])
    headings = [
        "reaches its limit",
        "lives",
        f"told before {shares.IN_TIME * 100:.0f} %",
        "told before the end",
    ]
    return (
        f"\n### Over a life of {LIFE:,}, the sidecar\n\nEach series has its own memory limit, which the sidecar knows: "
        "32 MiB to 4 GiB above the first level, log-uniform; for what does not leak, at least 1.05 times what it ever "
        f"needs, and 1 MiB.\n\n{ever}\n\nLeaks that reach their limit, after {shares.TOLD_FROM} invocations or more. "
        "*Told at* is the median, as a part of the life:\n\n" + markdown([*headings, "told at"], rows)
    )


def _intervals(results: Sequence[Result]) -> str:
    rows = []
    for group in (ALONE, BESIDE):
        for count in LENGTHS[1:]:
            row = [group, f"{count:,}"]
            for form in FORMS:
                made = shares.intervals(results, form, count, group)
                row += [percent(shares.coverage(made)), percent(shares.width(made))]
            rows.append(row)
    headings = ["leak", "invocations"] + [text for form in FORMS for text in (f"{form}: covers", "width")]
    return (
        "\n### The interval\n\nThe share of 95 % intervals that hold the true rate, of leaks with a constant one, "
        "whatever the verdict is; and their median width, as a part of that rate.\n\n" + markdown(headings, rows)
    )


def _confidences(results: Sequence[Result]) -> str:
    by_form = [shares.confidences(results, form, (ALONE, BESIDE)) for form in FORMS]
    rows = []
    for confidence in sorted({confidence for made in by_form for confidence in made}):
        row = [f"{confidence:.2f}"]
        for made in by_form:
            count, right = made.get(confidence, (0, None))
            row += [f"{count:,}", percent(right)]
        rows.append(row)
    headings = ["confidence"] + [text for form in FORMS for text in (f"{form}: verdicts", "were leaks")]
    table = markdown(headings, rows) if rows else "No verdict has one."
    return (
        "\n### Confidence\n\nOf the verdicts `growing`, at all of the lengths above: how many were leaks, if each of "
        f"the four groups is equally frequent.\n\n{table}"
    )


def _by_kind(kinds: dict[str, Kind], results: Sequence[Result]) -> str:
    rows = []
    for name, kind in sorted(kinds.items(), key=lambda item: GROUPS.index(group_of(item[1]))):
        rates = f"{kind.kib[0]:g} to {kind.kib[1]:g}" if kind.kib[1] else ""
        said = [percent(shares.called_kind(results, form, count, name)) for count in BY_KIND for form in FORMS]
        rows.append([name, group_of(kind), rates, *said])
    columns = [f"{count:,}: {form.rpartition(' ')[2]}" for count in BY_KIND for form in FORMS]
    return "\n### Called growing, by kind\n\n" + markdown(["kind", "group", "KiB", *columns], rows, 2)
