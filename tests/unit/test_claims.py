"""docs/claims.md: each claim is in its page's own words, and what proves it is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WITHOUT_CLAIMS = {"claims.md", "glossary.md"}
PROOFS = ("tests", "benchmarks", "faults", "docs")
"""Folders of what can prove a claim."""


class Claim(NamedTuple):
    """A row. `words` are quoted from the page."""

    page: str
    words: list[str]
    proofs: list[str]


def claims(text: str) -> list[Claim]:
    """The rows of all tables; a heading links to the page that they are about."""
    found = []
    page = ""
    for line in text.splitlines():
        if heading := re.fullmatch(r"## \[.+\]\((.+)\)", line):
            page = heading[1]
        elif line.startswith("| ") and not line.startswith("| claim |"):
            claim, proven = re.split(r" (?<!\\)\| ", line.strip("| "), maxsplit=1)
            found.append(Claim(page, re.findall(r'"([^"]+)"', claim), re.findall(r"`([^`]+)`", proven)))
    return found


def plain(markdown: str) -> str:
    """Without links, emphasis, code marks, escapes and line breaks."""
    return " ".join(re.sub(r"\[([^\]]+)\]\([^)]+\)|[*`\\]", r"\1", markdown).split())


@cache
def page_text(page: Path) -> str:
    return plain(page.read_text())


@cache
def functions_in(module: Path) -> frozenset[str]:
    return frozenset(node.name for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.FunctionDef))


def is_there(proof: str) -> bool:
    """True for a test (`tests/FILE.py::test_NAME`), a fault (`fault: ROW`, a row of docs/reliability.md), or a file."""
    if proof.startswith("fault: "):
        return f"| {proof.removeprefix('fault: ')} |" in (DOCS / "reliability.md").read_text()
    path, _, test = proof.partition("::")
    if not path.startswith(PROOFS) or not (ROOT / path).is_file():
        return False
    return not test or (test.startswith("test_") and test in functions_in(ROOT / path))


def problems(claim: Claim) -> list[str]:
    """What is wrong with the row, one text for each thing."""
    page = DOCS / claim.page
    if not page.is_file():
        return [f"no page {claim.page}"]
    gone = [f"not on the page: {words}" for words in claim.words if plain(words) not in page_text(page)]
    empty = [] if claim.words and claim.proofs else ["a row needs words of the page, and a proof"]
    return [*empty, *gone, *(f"no such proof: {proof}" for proof in claim.proofs if not is_there(proof))]


CLAIMS = claims((DOCS / "claims.md").read_text())


def test_each_claim_is_on_its_page_and_its_proof_is_there() -> None:
    assert [(claim.page, problem) for claim in CLAIMS for problem in problems(claim)] == []


def test_each_page_has_claims() -> None:
    pages = {f"{page.name}" for page in DOCS.glob("*.md")} - WITHOUT_CLAIMS
    assert {claim.page for claim in CLAIMS} == {"../README.md", *pages}


PROOF = "`tests/unit/test_claims.py::test_each_page_has_claims`"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (f'"These are public" | {PROOF}', ""),
        (f'"the module truemem_workbench.local, the pytest plugin" | {PROOF}', ""),
        (f'"it makes coffee" | {PROOF}', "not on the page: it makes coffee"),
        (f"These are public | {PROOF}", "a row needs words of the page, and a proof"),
        ('"These are public" | a test', "a row needs words of the page, and a proof"),
        (
            '"These are public" | `tests/unit/test_claims.py::test_gone`',
            "no such proof: tests/unit/test_claims.py::test_gone",
        ),
        ('"These are public" | `tests/unit/gone.py`', "no such proof: tests/unit/gone.py"),
        ('"These are public" | `fault: it rains`', "no such proof: fault: it rains"),
        ('"These are public" | `fault: /tmp is full`', ""),
    ],
)
def test_a_claim_that_is_gone_or_has_no_proof_is_found(row: str, problem: str) -> None:
    (claim,) = claims(f"## [api](api.md)\n\n| {row} |")
    assert problems(claim) == ([problem] if problem else [])


def test_a_page_that_is_gone_is_found() -> None:
    assert problems(Claim("gone.md", ["words"], [PROOF])) == ["no page gone.md"]
