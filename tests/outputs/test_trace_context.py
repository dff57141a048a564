"""The trace of an invocation, from X-Ray's header."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.records.trace_context import Trace, parse

ROOT = "Root=1-5759e988-bd862e3fe1be46a994272793"
TRACE_ID, SPAN_ID = "5759e988bd862e3fe1be46a994272793", "53995c3f42cd8ad8"


@pytest.mark.parametrize(
    ("header", "trace"),
    [
        (f"{ROOT};Parent={SPAN_ID};Sampled=1", Trace(TRACE_ID, SPAN_ID)),
        (f"{ROOT};Parent={SPAN_ID};Sampled=1;Lineage=2:a87bd80c:0", Trace(TRACE_ID, SPAN_ID)),
        (f"sampled=1; parent={SPAN_ID.upper()} ;{ROOT.upper()}", Trace(TRACE_ID, SPAN_ID)),
        (f"{ROOT};Sampled=1", Trace(TRACE_ID, "")),
        (f"{ROOT};Parent=0000000000000000;Sampled=1", Trace(TRACE_ID, "")),
        (f"{ROOT};Parent={SPAN_ID};Sampled=0", None),
        (f"{ROOT};Parent={SPAN_ID}", None),
        (f"{ROOT};Sampled=?", None),
        ("Root=2-5759e988-bd862e3fe1be46a994272793;Sampled=1", None),
        ("Root=1-5759e988bd862e3fe1be46a994272793;Sampled=1", None),
        ("Root=1-00000000-000000000000000000000000;Sampled=1", None),
        ("", None),
    ],
)
def test_a_sampled_trace_has_opentelemetrys_ids(header: str, trace: Trace | None) -> None:
    assert parse({"type": "X-Amzn-Trace-Id", "value": header}) == trace


@given(
    st.none() | st.text() | st.dictionaries(st.sampled_from(["value", "type"]), st.none() | st.text() | st.integers())
)
def test_whatever_comes_instead_is_no_trace(tracing: object) -> None:
    assert parse(tracing) is None
