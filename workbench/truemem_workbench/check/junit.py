"""The result as JUnit XML: a test case for each limit."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from truemem_workbench.local import BadInput

from .result import Result

# XML 1.0 has no way to say them, and a function's error message may.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document(result: Result) -> ET.Element:
    count = {outcome: sum(each.outcome == outcome for each in result.findings) for outcome in ("broken", "unknown")}
    suite = ET.Element(
        "testsuite",
        name="truemem check",
        tests=str(len(result.findings)),
        failures=str(count["broken"]),
        errors=str(count["unknown"]),
        skipped="0",
        time=f"{result.measurement.seconds:.3f}",
    )
    spec = _text(result.measurement.spec)
    for finding in result.findings:
        case = ET.SubElement(suite, "testcase", classname=spec, name=finding.name, time="0")
        if finding.outcome == "kept":
            continue
        kind = "failure" if finding.outcome == "broken" else "error"
        told = ET.SubElement(case, kind, message=_text(finding.sentence), type=finding.name)
        told.text = _text(result.text())
    ET.SubElement(suite, "system-out").text = _text(result.text())
    whole = ET.Element("testsuites")
    whole.append(suite)
    return whole


def write(result: Result, path: Path) -> None:
    """Raises BadInput."""
    try:
        ET.ElementTree(document(result)).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}. Try --junit PATH/report.xml") from None


def _text(value: str) -> str:
    return _NOT_XML.sub("?", value)
