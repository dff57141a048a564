"""Logs of real functions whose cause is known, recorded under the local Lambda. They are kept in tests/mcp/incidents.

`python -m testing.incidents [NAME...]` records them again, in some minutes. One needs Node.js. The environments get
names as AWS's have: the answers are then those for a function in an account.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from truemem_workbench.support.environment_ids import LOCAL

TESTS = Path(__file__).parents[1] / "tests"
FOLDER = TESTS / "mcp" / "incidents"
TRUEMEM = Path(sys.executable).with_name("truemem")
NAME = "orders"
"""What each function is called."""


class Incident(NamedTuple):
    name: str
    cause: str
    """What the finding must be."""
    said: str
    """What the answer must have in it beside the cause: holder, line or figure."""
    next: str
    """How the command begins that a person must type next; or the tool to call, or `done`."""
    program: str
    """In tests/mcp."""
    invocations: int = 300
    options: Sequence[str] = ("--memory", "512")

    @property
    def file(self) -> Path:
        return FOLDER / f"{self.name}.log.gz"


INCIDENTS = (
    Incident("line", "leak", "keeps.py:7 in remember", "lines", "functions/keeps.py", 400,
             ("--memory", "128", "--lines")),
    Incident("node", "leak", "keeps.mjs:5 in remember", "lines", "functions/keeps.mjs", 500,
             ("--memory", "256", "--lines")),
    Incident("cache", "leak", "app.py:23 in features", "lines", "../cases/lru_cache_behind_load/app.py", 600,
             ("--memory", "512", "--lines")),
    Incident("listeners", "leak", "index.mjs:6 in handler", "lines", "../cases/process_listeners/index.mjs", 500,
             ("--memory", "256", "--lines")),
    Incident("hidden", "leak", "In use 5 to 31 MiB", f"truemem attach {NAME} --lines",
             "../cases/lru_cache_behind_load/app.py", 1300),
    Incident("sockets", "descriptors", "EMFILE", "check", "../cases/sockets_left_open/app.py"),
    Incident("threads", "threads", "pool of threads", "check", "../cases/telemetry_threads/app.py"),
    Incident("agent", "extension", "extension payloads", "aws lambda get-function-configuration",
             "../cases/extension_keeps_payloads/app.py", 300,
             ("--memory", "512", "--extensions", str(TESTS / "cases/extension_keeps_payloads/extensions"))),
    Incident("spike", "none", "Max Memory Used rose", "done", "functions/spike.py"),
    Incident("killed", "none", "An invocation needs more at once", "check", "../cases/one_large_request/app.py", 200,
             ("--memory", "128")),
    Incident("hoards", "hoarding", "MALLOC_MMAP_THRESHOLD_=32768", "done", "functions/hoards.py"),
)  # fmt: skip
"""Where nothing grows the cause is `none`: after a kill too."""


def lines_of(incident: Incident) -> list[str]:
    """Run the function, and return the lines of its log."""
    target = f"{TESTS / 'mcp' / incident.program}:handler"
    asked = ["local", "run", target, "--event", "{}", "--invocations", str(incident.invocations), "--name", NAME]
    printed = subprocess.run(
        [TRUEMEM, *asked, *incident.options, "--json"], capture_output=True, text=True, check=False
    )
    events = [json.loads(line) for line in printed.stdout.splitlines()]
    texts = [str(each["log"]["text"]) for each in events if "log" in each]
    return [text.replace(LOCAL, "a2db5ca7") for text in texts if text.startswith(("{", "truemem "))]


def record(incident: Incident) -> None:
    """Keep the lines. The same lines make the same file."""
    text = "".join(f"{line}\n" for line in lines_of(incident))
    incident.file.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in INCIDENTS:
        if not sys.argv[1:] or each.name in sys.argv[1:]:
            record(each)
            print(each.name, each.file.stat().st_size)
