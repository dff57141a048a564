"""The fenced blocks of a page of docs/, and what can be said of a template."""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parents[2] / "docs"


class Block(NamedTuple):
    """```LANGUAGE NAME, and what is in it."""

    language: str
    name: str
    text: str


def blocks(page: str) -> list[Block]:
    found = re.findall(r"^```(\w*) ?([\w-]*)\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    return [Block(*parts) for parts in found]


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """Name and argument of each, continued lines joined."""
    text = re.sub(r"^#.*\n", "", dockerfile, flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in text.splitlines() if line.strip()]


def block(page: str, name: str) -> str:
    """The text of the one block of that name. Raises ValueError if there is none, or more than one."""
    (text,) = (made.text for made in blocks(page) if made.name == name)
    return text


def cfn_lint(template: Path, *options: str) -> str:
    """What cfn-lint says of a template: nothing if it has no fault."""
    command: list[str | Path] = [Path(sys.executable).with_name("cfn-lint"), *options, "--", template]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + (done.stderr if done.returncode else "")
