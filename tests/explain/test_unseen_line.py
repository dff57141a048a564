"""What keeps what grew is known, and the line is not: all outputs say so."""

from __future__ import annotations

from truemem_workbench.check import github, junit
from truemem_workbench.explain.attribution import Holder
from truemem_workbench.explain.explanation import Explanation
from truemem_workbench.explain.growth_page import page

from tests.explain.test_attribution import a_result


def test_every_output_has_what_keeps_it_without_a_line() -> None:
    holders = [Holder("", 0, 6.0, "Array of Object", "kept"), Holder("", 0, 2.0, "Map of Object", "sent")]
    explanation = Explanation(holders, 8.0, 320, 4.0)
    result = a_result(explanation)
    for text in (result.text(), junit.document(result).find(".//failure").text or "", github.summary(result)):  # type: ignore[union-attr]
        for row in ("6.0                 75%    line not seen  Array of Object kept", "Map of Object sent"):
            assert row in text
    assert "in no object that was seen" not in result.text()
    assert not any("what grows" in each for each in github.errors(result))
    first, _ = result.document()["explanation"]["lines"]  # type: ignore[index]
    assert (first["kind"], first["owner"], first["perInvocationKiB"]) == ("Array of Object", "kept", 6.0)
    assert first.keys().isdisjoint(("file", "line", "source"))
    html = page(explanation, "FAILED")
    assert "<td>line not seen" in html
    assert '"labels":["all that grew","Array of Object kept","Map of Object sent"]' in html
