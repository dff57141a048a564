"""The result as JUnit XML: a test case for each limit."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from ..support.bad_input import BadInput
from ..support.untrusted_text import visible
from .result import Result


def document(result: Result) -> ET.Element:
    """Make the document. `visible` escapes control characters, which XML 1.0 cannot have."""
    count = {outcome: sum(each.outcome == outcome for each in result.limits) for outcome in ("broken", "unknown")}
    suite = ET.Element(
        "testsuite",
        name="truemem check",
        tests=str(len(result.limits)),
        failures=str(count["broken"]),
        errors=str(count["unknown"]),
        skipped="0",
        time=f"{result.measurement.seconds:.3f}",
    )
    spec = visible(result.measurement.spec)
    for each in result.limits:
        case = ET.SubElement(suite, "testcase", classname=spec, name=each.name, time="0")
        if each.outcome == "kept":
            continue
        kind = "failure" if each.outcome == "broken" else "error"
        told = ET.SubElement(case, kind, message=visible(each.sentence), type=each.name)
        told.text = result.text()
    ET.SubElement(suite, "system-out").text = result.text()
    whole = ET.Element("testsuites")
    whole.append(suite)
    return whole


def write(result: Result, path: Path) -> None:
    """Write the document. Raises BadInput."""
    try:
        ET.ElementTree(document(result)).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}. Try --output FOLDER/report.xml") from None
