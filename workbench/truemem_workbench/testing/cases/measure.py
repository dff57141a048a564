"""Measures what a case really does, without truemem: `python -m truemem_workbench.testing.cases.measure NAME`.

The program runs twice: as it is, and with its collector run before each look. Sizes come from /proc, mallinfo2(3),
sys._debugmallocstats, V8's and the JVM's own figures, and mincore (as fincore(1) prints it). The figures are printed
and written to measured.json of the case's folder; test_cases.py asserts that they show the known cause.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .case import Case, Ready, cases, ready

LOOKS = 20
"""In a run; the invocations between two are the same."""
RUNTIMES = Path(__file__).with_name("runtimes")
Sample = dict[str, int]


def status(pid: int) -> dict[str, int]:
    """VmRSS, in KiB, and the number of threads. {} if it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {}
    return {name: int(value) for name, value in re.findall(r"^(VmRSS|Threads):\s+(\d+)", text, re.MULTILINE)}


def descendants(pid: int) -> set[int]:
    """All processes below a process, zombies too."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
    found, before = {pid}, -1
    while len(found) != before:
        before = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found - {pid}


def cached(folder: Path) -> int:
    """KiB of the files of a folder that are in the page cache."""
    files = [str(file) for file in folder.rglob("*") if file.is_file()]
    if not files:
        return 0
    command = ["fincore", "--bytes", "--noheadings", "--output", "RES", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return sum(map(int, done.stdout.split())) // 1024


def look(pid: int, folder: Path) -> Sample:
    """What /proc and the disk tell of a process, its children and its /tmp. Sizes in KiB."""
    own, children = status(pid), descendants(pid)
    return {
        "rss": own.get("VmRSS", 0),
        "threads": own.get("Threads", 0),
        "descriptors": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "processes": len(children),
        "childrenRss": sum(status(child).get("VmRSS", 0) for child in children),
        "tmp": sum(file.stat().st_blocks for file in folder.rglob("*") if file.is_file()) // 2,
        "pageCache": cached(folder),
    }


def environment(case: Case, program: Ready, tmp: Path, step: int, *, collect: bool) -> dict[str, str]:
    """Variables of the program: as Lambda has them, as far as it may look at them."""
    pairs = zip(case.options, case.options[1:], strict=False)
    given = dict(value.split("=", 1) for option, value in pairs if option == "--env")
    account = {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    function = {"LAMBDA_TASK_ROOT": str(program.folder), "AWS_LAMBDA_FUNCTION_NAME": case.name}
    measuring = {"CASE_EVENT": case.event, "CASE_STEP": str(step), "CASE_FIGURES": str(program.folder / "figures")}
    if collect:
        measuring["CASE_COLLECT"] = "1"
    own = {"PATH": os.environ["PATH"], "HOME": str(tmp), "TMPDIR": str(tmp), "AWS_LAMBDA_FUNCTION_VERSION": "1"}
    return {**own, **account, **function, **measuring, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024", **given}


def ended(process: subprocess.Popen[Any]) -> None:
    """End a process and all below it."""
    for pid in (*descendants(process.pid), process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def looped(case: Case, program: Ready, tmp: Path, step: int, *, collect: bool) -> Iterator[Sample]:
    """A handler of Node.js, in a loop. A program that ends ends the samples."""
    flags = [*case.measure.get("node", []), *(["--expose-gc"] if collect else [])]
    process = subprocess.Popen(
        ["node", *flags, str(RUNTIMES / "measured.mjs")],
        cwd=program.folder,
        env=environment(case, program, tmp, step, collect=collect),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin and process.stdout
    try:
        for _ in range(LOOKS):
            process.stdin.write(f"{step}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                return
            yield json.loads(answer) | look(process.pid, tmp)
    except BrokenPipeError:
        return
    finally:
        ended(process)


class Api(BaseHTTPRequestHandler):
    """As much of Lambda's APIs as a runtime and an extension need to go on. `gate` lets one event through."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: two would wait for an acknowledgement
    gate: threading.Semaphore
    idle: threading.Semaphore
    event: str

    @classmethod
    def asked(cls, program: subprocess.Popen[bytes]) -> None:
        """Wait until the program asks for the next event. Raises ChildProcessError if it ends."""
        while not cls.idle.acquire(timeout=1):
            if program.poll() is not None:
                raise ChildProcessError(f"the program ended with {program.returncode}")

    def answer(self, body: str, **headers: str) -> None:
        self.send_response(200)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self) -> None:
        self.idle.release()
        self.gate.acquire()
        if "/extension/" in self.path:
            self.answer('{"eventType": "INVOKE"}')
            return
        # Another trace id each time, as in Lambda: AWS's client puts it into the environment, and setenv(3) of glibc
        # keeps each value that it ever had, between blocks that are freed.
        self.answer(
            self.event,
            Content_Type="application/json",
            Lambda_Runtime_Aws_Request_Id=str(uuid.uuid4()),
            Lambda_Runtime_Deadline_Ms=str(int(time.time() * 1000) + 30_000),
            Lambda_Runtime_Invoked_Function_Arn="arn",
            Lambda_Runtime_Trace_Id=f"Root=1-{uuid.uuid4().hex};Parent={uuid.uuid4().hex[:16]};Sampled=0",
        )

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer("{}", Lambda_Extension_Identifier="extension")

    def log_message(self, *about: object) -> None:
        """Say nothing."""


@contextmanager
def api(event: str) -> Iterator[tuple[type[Api], str]]:
    """Lambda's APIs; their address."""
    kind = type("Api", (Api,), {"gate": threading.Semaphore(0), "idle": threading.Semaphore(0), "event": event})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield kind, f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def live_of_jvm(pid: int) -> int:
    """KiB of the objects that a full collection leaves."""
    done = subprocess.run(["jcmd", str(pid), "GC.class_histogram"], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) // 1024


def metaspace_of_jvm(pid: int) -> int:
    """KiB of classes that the JVM uses: MU of jstat(1)."""
    done = subprocess.run(["jstat", "-gc", str(pid)], capture_output=True, text=True, check=True)
    names, values = (line.split() for line in done.stdout.splitlines())
    return int(float(dict(zip(names, values, strict=True))["MU"]))


def client(program: Ready) -> dict[str, str]:
    """The variables that lead a Python handler's interpreter to AWS's runtime client, that of our own environment."""
    folder = program.folder / "client"
    folder.mkdir()
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for name in ("awslambdaric", "runtime_client*.so", "snapshot_restore_py", "simplejson"):
            for found in Path(place).glob(name):
                (folder / found.name).symlink_to(found)
    return {"PYTHONPATH": f"{folder}:{RUNTIMES}"}


def served(case: Case, program: Ready, tmp: Path, step: int, *, collect: bool) -> Iterator[Sample]:
    """A Python handler behind AWS's own client, a runtime of its own, or an extension: what asks for the next event."""
    with api(case.event) as (kind, address):
        variables = environment(case, program, tmp, step, collect=collect) | {"AWS_LAMBDA_RUNTIME_API": address}
        command = [program.target]
        if program.extensions:
            command = list(map(str, program.extensions.iterdir()))
        elif case.runtime == "python":
            command = [str(program.python), "-m", "awslambdaric", "measured.handler"]
            variables |= client(program)
        process = subprocess.Popen(
            command, cwd=program.folder, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            kind.asked(process)
            for _ in range(LOOKS):
                for _ in range(step):
                    kind.gate.release()
                    kind.asked(process)
                own = {}
                if (figures := program.folder / "figures").is_file():
                    own = json.loads(figures.read_text().splitlines()[-1])
                elif case.runtime == "java":
                    own = {"used": live_of_jvm(process.pid)} if collect else {}
                    own["metaspace"] = metaspace_of_jvm(process.pid)
                yield own | look(process.pid, tmp)
        finally:
            ended(process)


def measured(case: Case) -> dict[str, Any]:
    """Both runs: a list for each figure, one value a look. `invocations` between two looks."""
    step = max(1, case.measure.get("invocations", 600) // LOOKS)
    figures: dict[str, Any] = {"invocations": step}
    for name, collect in (("asItIs", False), ("collected", True)):
        tmp = Path(tempfile.mkdtemp(prefix="truemem-measured-", dir="/var/tmp"))
        try:
            run = looped if case.runtime == "nodejs" else served
            samples = list(run(case, ready(case), tmp, step, collect=collect))
        finally:
            shutil.rmtree(tmp, ignore_errors=True)
        rows = {each: [sample[each] for sample in samples] for each in samples[0]}
        figures[name] = {each: row for each, row in rows.items() if any(row)}
    return figures


def slope(row: list[int], step: int) -> float:
    """Growth per invocation over the later half of a run: its last look less that of its middle."""
    middle = len(row) // 2
    return (row[-1] - row[middle]) / ((len(row) - 1 - middle) * step)


def main() -> None:
    asked = set(sys.argv[1:])
    for case in cases():
        if asked and case.name not in asked:
            continue
        figures = measured(case)
        print(f"{case.name}: {', '.join(case.causes)}; {LOOKS} looks, {figures['invocations']} invocations apart")
        runs = [f'{{"invocations": {figures["invocations"]}']
        for run in ("asItIs", "collected"):
            for name, row in figures[run].items():
                looks = f"{row[0]:>8} {row[len(row) // 2]:>8} {row[-1]:>8}"
                print(f"  {run:9} {name:11} {looks}  {slope(row, figures['invocations']):+.2f} an invocation")
            rows = ",\n".join(f'  "{name}": {json.dumps(row)}' for name, row in figures[run].items())
            runs.append(f'"{run}": {{\n{rows}\n}}')
        (case.folder / "measured.json").write_text(",\n".join(runs) + "}\n")


if __name__ == "__main__":
    main()
