"""The gate's file, for GitHub Actions and for GitLab. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..support.typed_command import Command
from .found import Build, Found, builds_of

HEADER = "# Written by `truemem init`: fails if a function's memory grows. Yours to edit: truemem docs check\n"
UNSAID = "set it to what pip installs as truemem"
PYTHON, NODE, GO, JAVA = "3.13", "22", "1.24", "21"
"""Versions where nothing says one."""
OLDEST_PYTHON = (3, 11)
"""What truemem needs."""
OF_PIP = {"uv": "uv", "poetry": "poetry", "pipenv": "pipenv"}
"""Tools of a build that pip installs, with their packages."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What the file does."""

    checks: Sequence[tuple[Found, Command]]
    """Each function, with its command."""
    install: str
    """What pip installs as truemem. Empty: the variable TRUEMEM says it."""
    folder: Path = Path()
    """Where the commands are typed, from the repository's root."""
    name: str = "memory"

    def of(self, language: str) -> Gate:
        """The gate of the functions in this language."""
        some = [each for each in self.checks if each[0].language == language]
        return Gate(checks=some, install=self.install, folder=self.folder, name=f"{self.name}-{language}")

    @property
    def languages(self) -> list[str]:
        return list(dict.fromkeys(found.language for found, _ in self.checks))

    @property
    def builds(self) -> list[Build]:
        return builds_of([found for found, _ in self.checks])

    def version(self, language: str, usual: str) -> str:
        """The newest version that its functions in this language ask for."""
        said = [found.version for found, _ in self.checks if found.language == language and found.version]
        return max(said, key=_numbers, default=usual)

    @property
    def python(self) -> str:
        """The version of Python that runs truemem, and its functions if it can."""
        asked = self.version("python", PYTHON)
        return asked if _numbers(asked) >= OLDEST_PYTHON else PYTHON


def github(gate: Gate) -> str:
    """The workflow's text."""
    steps = ["- uses: actions/checkout@v4", *_action("setup-python@v5", "python-version", gate.python)]
    if "nodejs" in gate.languages or any(each.tool in ("npm", "npx") for each in gate.builds):
        steps += _action("setup-node@v4", "node-version", gate.version("nodejs", NODE))
    if "go" in gate.languages:
        steps += _action("setup-go@v5", "go-version", gate.version("go", GO))
    if "java" in gate.languages:
        steps += [*_action("setup-java@v4", "java-version", gate.version("java", JAVA)), "    distribution: corretto"]
    if any(each.tool == "sam" for each in gate.builds):
        steps += ["- uses: aws-actions/setup-sam@v2", "  with:", "    use-installer: true"]
    usual = gate.install.replace("'", "''")
    value = _scalar(f"${{{{ vars.TRUEMEM || '{usual}' }}}}") if usual else "${{ vars.TRUEMEM }}"
    steps += ["- env:", f"    TRUEMEM: {value}", f"  run: {_installs()}"]
    if lines := [*_built(gate.builds, OF_PIP)]:
        steps += _run(lines)
    steps += _run([*_checked([str(command.with_option("--format", "github")) for _, command in gate.checks])])
    within = (
        f"    defaults:\n      run:\n        working-directory: {_scalar(gate.folder)}\n" if gate.folder.parts else ""
    )
    listed = "".join(f"      {line}\n" for line in steps)
    return (
        f"{HEADER}name: {gate.name}\non: [pull_request]\njobs:\n  memory:\n    runs-on: ubuntu-latest\n{within}"
        f"    steps:\n{listed}"
    )


def _action(name: str, setting: str, value: str) -> list[str]:
    return [f"- uses: actions/{name}", "  with:", f"    {setting}: {_scalar(value)}"]


def _run(lines: Sequence[str]) -> list[str]:
    return ["- run: |", *(f"    {line}" for line in lines)]


def gitlab(gate: Gate, stage: str = "") -> str:
    """The text of .gitlab-ci.yml, or of a file to include: a job for each language. `stage`: the jobs', if `test` is
    none of the project's."""
    gates = [gate] if len(gate.languages) == 1 else [gate.of(language) for language in gate.languages]
    return HEADER + "\n".join(_job(each, stage) for each in gates)


def _job(gate: Gate, stage: str) -> str:
    (language,) = gate.languages
    images = {
        "nodejs": f"node:{gate.version('nodejs', NODE)}",
        "go": f"golang:{gate.version('go', GO)}",
        "java": f"maven:3-eclipse-temurin-{gate.version('java', JAVA)}",
    }
    if any(each.tool == "gradle" for each in gate.builds):
        images["java"] = f"gradle:8-jdk{gate.version('java', JAVA)}"
    image = images.get(language, f"python:{gate.python}")
    lines = [f"cd {shlex.quote(str(gate.folder))}"] if gate.folder.parts else []
    if language in images:
        lines += ["apt-get update -q && apt-get install -qy python3-venv"]
    lines += ["python3 -m venv /tmp/truemem && . /tmp/truemem/bin/activate", _installs()]
    lines += _built(gate.builds, {**OF_PIP, "sam": "aws-sam-cli"})
    reports = gate.folder / "memory*.xml"
    several = len(gate.checks) > 1
    commands = [
        str(command.with_option("--output", f"memory-{found.name}.xml" if several else "memory.xml"))
        for found, command in gate.checks
    ]
    lines += ["\n".join(_checked(commands))]
    script = "".join(f"    - |\n{_indented(line)}" if "\n" in line else f"    - {_scalar(line)}\n" for line in lines)
    variables = f"  variables:\n    TRUEMEM: {_scalar(gate.install)}\n" if gate.install else ""
    return (
        f"{gate.name}:\n  image: {image}\n{f'  stage: {stage}' + chr(10) if stage else ''}{variables}"
        f'  rules:\n    - if: $CI_PIPELINE_SOURCE == "merge_request_event"\n'
        f"  script:\n{script}"
        f"  artifacts:\n    when: always\n    reports:\n      junit: {_scalar(reports)}\n"
    )


def _indented(text: str) -> str:
    return "".join(f"      {line}\n" for line in text.split("\n"))


def _installs() -> str:
    return f'pip install -q "${{TRUEMEM:?{UNSAID}}}"'


def _built(builds: Sequence[Build], of_pip: dict[str, str]) -> Iterator[str]:
    """The lines that build, each in its folder."""
    tools = dict.fromkeys(of_pip[each.tool] for each in builds if each.tool in of_pip)
    yield from (f"pip install -q {tool}" for tool in tools)
    for each in builds:
        yield f"(cd {shlex.quote(str(each.folder))} && {each.command})" if each.folder.parts else each.command


def _checked(commands: Sequence[str]) -> Iterator[str]:
    """The lines that check: all functions, also after one that fails."""
    if len(commands) == 1:
        yield commands[0]
        return
    yield "code=0"
    yield from (f"{each} || code=$?" for each in commands)
    yield "exit $code"


def _scalar(value: object) -> str:
    """A text as YAML has it: JSON's form is one."""
    return json.dumps(str(value), ensure_ascii=False)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(".") if each.isdigit())
