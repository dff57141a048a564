"""Public reports of memory that grows, as programs: reads a case, makes it ready to run, measures it.

`python -m testing.cases NAME` measures what a case really does, without truemem. The program runs twice: as it is, and
with its collector run before each look. Sizes come from /proc, mallinfo2(3), sys._debugmallocstats, those of V8, the
JVM and Go, and mincore (as fincore(1) prints it). The figures are printed and written to measured.json of the case's
folder; test_cases.py asserts that they show the known cause.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import tomllib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .dotnet import built
from .installs import CACHE, Missing, debian_package, node_packages, python_packages

FOLDER = Path(__file__).parents[1] / "tests" / "cases"
RUNTIMES = Path(__file__).with_name("runtimes")
CAUSES = (
    "none",
    "leak",
    "hoarding",
    "cache",
    "collector",
    "native",
    "processes",
    "threads",
    "descriptors",
    "tmp",
    "extension",
    "page-cache",
    "failing",
)
"""What a case may have as its known cause: those of a finding but `undecided`."""
HARMLESS = frozenset({"none", "cache", "collector", "page-cache"})
COUNTED = frozenset({"processes", "threads", "descriptors"})
"""Causes that are counted: others have a size."""


@dataclass(frozen=True)
class Case:
    """A public report, rebuilt."""

    name: str
    """That of the folder."""
    title: str
    causes: tuple[str, ...]
    """The known cause first, then others that are true as well."""
    sources: tuple[str, ...]
    established: str
    """What the thread of the report found out."""
    runtime: str
    """python, nodejs, java, dotnet, shell or executable."""
    build: str | None
    """The shell command that makes the `bootstrap` of an executable. The compiler is its first word."""
    nightly: bool
    options: tuple[str, ...]
    """Of `truemem check`."""
    holder: str | None
    """What the finding's holder has in it; None where any is right."""
    hidden: bool | None
    exits: frozenset[int]
    event: str
    """JSON; also what the program gets when it is measured."""
    packages: tuple[str, ...]
    """NAME==VERSION: beside those of requirements.lock. Their lock file is in the folder. Of Java: names of Debian's
    packages."""
    node: int | None
    """The version of Node.js that shows it; None where any does."""
    measure: dict[str, Any]
    """`invocations`, and `node`: flags of Node.js."""
    keeps: float | None
    """What an invocation keeps, in the long run: KiB, or a number where the first cause is one of COUNTED. The case's
    author saw it in a loop of their own around the handler, without truemem and this module. None: nothing, or unknown.
    """

    @property
    def folder(self) -> Path:
        return FOLDER / self.name


@dataclass(frozen=True)
class Ready:
    """A program that can run: in a folder that every user can read."""

    folder: Path
    target: str
    """As `truemem check` names it."""
    python: Path
    """Interpreter of a Python handler."""
    extensions: Path | None

    @property
    def arguments(self) -> list[str]:
        """Of `truemem check`."""
        python = ["--python", str(self.python)] if self.target.endswith(".py:handler") else []
        return [self.target, *python, *(["--extensions", str(self.extensions)] if self.extensions else [])]


def exits(causes: tuple[str, ...]) -> frozenset[int]:
    """The exit codes of `truemem check` that fit the causes."""
    fitting = set()
    for cause in causes:
        if cause in HARMLESS:
            fitting.add(0)
        elif cause == "failing":
            fitting.add(2)
        elif cause == "hoarding":
            fitting.update((0, 1))  # a level that the limit still allows, or one that it does not
        else:
            fitting.add(1)
    return frozenset(fitting)


def read(folder: Path) -> Case:
    """The case of a folder. Raises KeyError or ValueError if its file is not as README.md says."""
    told = tomllib.loads((folder / "case.toml").read_text())
    causes, runtime = tuple(told.pop("cause")), told.pop("runtime")
    case = Case(
        name=folder.name,
        title=told.pop("title"),
        causes=causes,
        sources=tuple(told.pop("sources")),
        established=told.pop("established"),
        runtime=runtime,
        build=told.pop("build") if runtime == "executable" else None,
        nightly=told.pop("nightly", True),
        options=tuple(told.pop("options", ())),
        holder=told.pop("holder", None),
        hidden=told.pop("hidden", None),
        exits=frozenset(told.pop("exits", exits(causes))),
        event=told.pop("event", "{}"),
        packages=tuple(told.pop("packages", ())),
        node=told.pop("node", None),
        measure=told.pop("measure", {}),
        keeps=told.pop("keeps", None),
    )
    if told or not set(causes) <= set(CAUSES):
        raise ValueError(f"{folder.name}/case.toml: {', '.join(told) or 'cause'} is not as README.md says")
    return case


@functools.cache
def cases() -> tuple[Case, ...]:
    """All of them, by name."""
    return tuple(read(file.parent) for file in sorted(FOLDER.glob("*/case.toml")))


def ready(case: Case) -> Ready:
    """Install what the program needs, and copy it to a folder for this run. Raises Missing."""
    # not in the checkout, because the function runs as another user; and not in /tmp, which is another for it
    folder = Path(tempfile.mkdtemp(prefix=f"truemem-case-{case.folder.name}-", dir="/var/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copytree(case.folder, folder, dirs_exist_ok=True)
    folder.chmod(0o755)
    python, target = Path(sys.executable), str(folder / "app.py:handler")
    lock = case.folder / "requirements.lock"
    if lock.is_file():
        digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
        python = python_packages(CACHE / f"case-{digest}", lock.read_text()) / "python"
    if case.runtime == "nodejs":
        _check_node(case.node)
        target = str(folder / "index.mjs:handler")
        if (case.folder / "package-lock.json").is_file():
            (folder / "node_modules").symlink_to(node_packages(CACHE / f"case-{case.name}", case.folder))
    elif case.runtime == "java":
        if shutil.which("javac") is None:
            raise Missing("there is no JDK: no javac on the path")
        for jar in (jar for name in case.packages for jar in debian_package(name).glob("usr/share/java/*.jar")):
            shutil.copy(jar, folder)
        source, path = [str(RUNTIMES / "Bootstrap.java"), str(folder / "App.java")], f"{folder}:{folder}/*"
        subprocess.run(["javac", "--release", "17", "-cp", path, "-d", str(folder), *source], check=True)
        target = _executable(folder, f'exec java $JAVA_FLAGS -cp "{path}" Bootstrap')
    elif case.runtime == "dotnet":
        command = built(folder, RUNTIMES / "Bootstrap.cs", folder / "App.cs")
        target = _executable(folder, f"exec {shlex.join(command)}")
    elif case.runtime == "shell":
        if shutil.which("curl") is None:
            raise Missing("there is no curl on the path")
        target = _executable(folder, (RUNTIMES / "bootstrap.sh").read_text())
    elif case.build:
        compiler = case.build.split()[0]
        if shutil.which(compiler) is None:
            raise Missing(f"there is no {compiler} on the path")
        for file in RUNTIMES.glob("runtime.*"):
            shutil.copy(file, folder)
        subprocess.run(case.build, shell=True, cwd=folder, check=True)
        target = str(folder / "bootstrap")
    extensions = folder / "extensions"
    return Ready(folder, target, python, extensions if extensions.is_dir() else None)


def _check_node(version: int | None) -> None:
    if shutil.which("node") is None:
        raise Missing("there is no node on the path")
    told = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if version is not None and not told.startswith(f"v{version}."):
        raise Missing(f"it needs Node.js {version}, and the node on the path is {told}")


def _executable(folder: Path, script: str) -> str:
    bootstrap = folder / "bootstrap"
    bootstrap.write_text(f"#!/bin/bash\n{script}\n")
    bootstrap.chmod(0o755)
    return str(bootstrap)


LOOKS = 20
"""In a run; the invocations between two are the same."""
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
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
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


OWN_TMP = ["unshare", "--map-root-user", "--mount", "/bin/sh", "-c", 'mount --rbind "$TMPDIR" /tmp && exec "$0" "$@"']
"""Begin of a command whose /tmp is the folder that is looked at."""


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
        elif case.runtime == "shell":
            command = [*OWN_TMP, *command]
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
