"""A Java handler through AWS's runtime interface client, where it is to be found, or through a client of our own."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from ...support.bad_input import BadInput
from ...support.cache import cache, made_once
from ...support.platform_facts import runtimes
from .function import Function
from .java_classes import CORE, INTERFACES, OF_THE_JDK, ClassPath, handlers_in

OLDEST = 11
"""Version of Java that our client is compiled for."""
SOURCES = Path(__file__).with_name("java")  # folder of our client's source
OUR_CLIENT, AWS_CLIENT = "truemem.Client", f"{CORE}api.client.AWSLambda"
GROUP, CORE_JAR, CLIENT_JAR = "com.amazonaws", "aws-lambda-java-core", "aws-lambda-java-runtime-interface-client"
OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
NOTICE = "truemem's own client for Java runs the handler: AWS's is not on the class path"
SHAPE = "PATH/app.jar:com.example.App::handleRequest, or FOLDER/classes:com.example.App"
HANDLER = re.compile(r"[\w$.]+(::[\w$]+)?")
_COPY = (
    "Try mvn dependency:copy-dependencies, which puts jars into target/dependency; jars in lib beside it will do, or a"
    " jar with all in it (maven-shade-plugin, Gradle's shadowJar)"
)
_SIZES = (
    'of="$JAVA_TOOL_OPTIONS $JDK_JAVA_OPTIONS" kib=$((AWS_LAMBDA_FUNCTION_MEMORY_SIZE * 1024));'
    " meta=$(((kib + 5) / 10)) code=$(((kib + 10) / 20));"
    " [ $meta -le 163840 ] || meta=163840; [ $code -le 81920 ] || code=81920;"
)
_HEAP = (
    ' case $of in *-Xmx* | *MaxHeapSize* | *MaxRAM*) ;; *) set -- -XX:MaxHeapSize=$((kib - meta - code))k "$@" ;; esac;'
    " case $of in *SerialGC* | *ParallelGC* | *G1GC* | *ZGC* | *ShenandoahGC* | *EpsilonGC*) ;;"
    ' *) set -- -XX:+UseSerialGC "$@" ;; esac;'
)
_SINCE_17 = (
    ' case $of in *Tiered*) ;; *) set -- -XX:+TieredCompilation -XX:TieredStopAtLevel=1 "$@" ;; esac;'
    ' exec "$0" --add-opens=java.base/java.io=ALL-UNNAMED -XX:+ErrorFileToStderr "$@"'
)
_BEFORE_17 = (
    ' case $of in *MaxMetaspaceSize*) ;; *) set -- -XX:MaxMetaspaceSize=${meta}k "$@" ;; esac;'
    ' case $of in *ReservedCodeCacheSize*) ;; *) set -- -XX:ReservedCodeCacheSize=${code}k "$@" ;; esac;'
    ' case $of in *Tiered*) ;; *) set -- -XX:-TieredCompilation "$@" ;; esac;'
    ' exec "$0" -Djava.net.preferIPv4Stack=true "$@"'
)


def start_line(java: int) -> str:
    """The shell's line that starts a JVM of this version as Lambda does: $0 is `java`, and $@ class path, main class
    and handler.

    The heap is what the memory size leaves beside 10 % for metaspace (160 MiB at most) and 5 % for compiled code (80
    MiB at most); before Java 17 these are limits too. From 17 on C1 alone compiles. What JAVA_TOOL_OPTIONS says is left
    out: a collector named twice would end the JVM, and people do set one on Lambda.

    Sources, each a command line as a wrapper or `ps` got it: java17 of 512 MB, -XX:MaxHeapSize=445645k
    -XX:+UseSerialGC -XX:+TieredCompilation -XX:TieredStopAtLevel=1 --add-opens=java.base/java.io=ALL-UNNAMED
    -XX:+ErrorFileToStderr (github.com/sigpwned/the-lambda-iceberg-dissecting-the-official-java-runtimes); java11 of 256
    MB, 222823k with metaspace 26214k and code 13107k (github.com/DataDog/datadog-lambda-extension/pull/117); Java 8 of
    3,008 MB, 2834432k with 163840k and 81920k (github.com/lambci/docker-lambda, java8). Of 21 and 25 none is known: AWS
    says the same of their compilation (docs.aws.amazon.com/lambda/latest/dg/java-customization.html). Not here: AWS's
    archive of classes (-XX:SharedArchiveFile) and its Log4j agent.
    """
    return _SIZES + _HEAP + (_SINCE_17 if java >= 17 else _BEFORE_17)


def is_java(spec: str) -> bool:
    """True of `app.jar:...`, `FOLDER:com.example.App...`, and of a jar, a class or a source without a handler."""
    name, _, handler = spec.partition(":")
    if Path(name).suffix in (".jar", ".class", ".java"):
        return True
    return Path(name).is_dir() and (bool(HANDLER.fullmatch(handler)) or any(Path(name).glob("**/*.class")))


def from_java_handler(spec: str, notify: Callable[[str], None] = lambda _: None) -> tuple[Function, tuple[str, ...]]:
    """Make a Function from `target/app.jar:com.example.App::handleRequest` or `target/classes:com.example.App`, and
    notices for the user. It runs as on the runtime of the Java that is here, in the folder or beside the jar.

    Our own client is compiled once: that takes seconds, and `notify` gets a sentence before it. Raises BadInput.
    """
    name, _, handler = spec.partition(":")
    path = Path(name)
    if path.suffix in (".class", ".java"):
        raise BadInput(f"{path.name} is one file of a program. Build it, and try {SHAPE}")
    if not path.exists():
        raise BadInput(f"no file {name}. Build it, and try {SHAPE}")
    if not HANDLER.fullmatch(handler):
        raise BadInput(f"{name} names no handler.{_guess(name)}")
    path = path.resolve()
    classes = ClassPath(_entries(path))
    of, _, method = handler.partition("::")
    java = _java()
    _check(classes, name, of, method, java)
    notices = []
    jars: list[Path] = []
    if not classes.has(f"{CORE}Context"):
        jars = _with_needs(CORE_JAR)
        if not jars and any(each.startswith(CORE) for it in classes.family(of) for each in (*it.above, *it.mentions)):
            raise BadInput(f"{name} needs {CORE_JAR}, which is neither in it nor beside it. {_COPY}")
    client, main = _with_needs(CLIENT_JAR), AWS_CLIENT
    if classes.has(AWS_CLIENT):
        client = []
    elif not client:
        client, main, notices = [_our_client(java, notify)], OUR_CLIENT, [NOTICE]
    whole = ClassPath([*client, *classes.entries, *jars])
    mentioned = found.mentions if (found := classes.find(of)) else ()
    if missing := sorted(each for each in mentioned if not each.startswith(OF_THE_JDK) and not whole.has(each)):
        notices.append(f"{of} refers to {missing[0]}, which is not on its class path. {_COPY}")
    root = path if path.is_dir() else path.parent
    function = Function(
        command=("/bin/sh", "-c", start_line(java.version), str(java.program), "-cp", str(whole), main, handler),
        task_root=root,
        handler=handler,
        runtime=f"java{java.version}",
        needs=(root, *whole.entries, java.program),
    )
    return function, tuple(notices)


def source_of(place: Path, handler: str) -> tuple[Path | None, int | None]:
    """The handler's source file in Maven's and Gradle's layout above a jar or a folder of classes, from the current
    folder if it lies below that, and the line of its method, as far as they are found."""
    of, _, method = handler.partition("::")
    outer = of.partition("$")[0].replace(".", "/")
    for above in list(place.absolute().parents)[:4]:
        for language in ("java", "kotlin"):
            path = above / "src" / "main" / language / f"{outer}.{'java' if language == 'java' else 'kt'}"
            if path.is_file():
                lines = enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
                called = re.compile(rf"\b{re.escape(method or 'handleRequest')}\s*\(")
                here = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
                return here, next((number for number, line in lines if called.search(line)), None)
    return None, None


class _Java(NamedTuple):
    program: Path
    version: int
    shown: str
    """Its version in full: 17.0.15."""


def _java() -> _Java:
    """That of JAVA_HOME, else the first on the PATH. Raises BadInput."""
    home = Path(os.environ.get("JAVA_HOME", ""), "bin", "java")
    found = str(home) if home.is_absolute() and home.is_file() else shutil.which("java")
    if found is None:
        usual = runtimes("java")[-1].removeprefix("java")
        raise BadInput(f"A handler in Java needs Java, and no java is on the PATH. Install a JDK, such as {usual}")
    done = _run([found, "-XshowSettings:properties", "-version"])
    said = re.search(r"^\s*java\.version = (\S+)", done.stderr, re.MULTILINE)
    number = re.match(r"(?:1\.)?(\d+)", said[1]) if said else None
    if said is None or number is None:
        raise BadInput(f"{found} does not say its version. Put a JDK first on the PATH, or set JAVA_HOME")
    if int(number[1]) < OLDEST:
        raise BadInput(
            f"{found} is Java {said[1]}, and {OLDEST} is the oldest that can run. Put a newer one on the PATH"
        )
    return _Java(Path(found).resolve(), int(number[1]), said[1])


def _entries(path: Path) -> list[Path]:
    """The class path of a jar or a folder: as Lambda has it (a folder and its lib), and what builds put beside it."""
    beside, resources = path.parent, []
    if path.parts[-3:-1] in (("classes", "java"), ("classes", "kotlin")):  # build/classes/java/main
        beside = path.parents[2]
        resources = [each for each in (beside / "resources" / path.name,) if each.is_dir()]
    places = [path / "lib", *(beside / each for each in ("lib", "dependency"))] if path.is_dir() else []
    places = places or [path.parent / each for each in ("lib", "dependency")]
    return [path, *resources, *(jar for place in places for jar in sorted(place.glob("*.jar")))]


def _check(classes: ClassPath, shown: str, of: str, method: str, java: _Java) -> None:
    """Raises BadInput for a handler that this Java could not call."""
    found = classes.find(of)
    if found is None:
        raise BadInput(f"no class {of} in {shown}.{_guess(shown)}")
    if found.java > java.version:
        raise BadInput(
            f"{of} is compiled for Java {found.java}, and {java.program} is Java {java.shown}. Set JAVA_HOME to a JDK"
            f" {found.java}, or compile with --release {java.version}"
        )
    family = list(classes.family(of))
    known = {"java.lang.Object", "java.lang.Record", *INTERFACES, *(each.name for each in family)}
    if any(parent not in known for each in family for parent in each.above):
        return  # what these have is not known
    public = sorted({name for each in family for name in each.methods}, key=lambda each: "handle" not in each.lower())
    if method and method not in public:
        raise BadInput(f"{of} has no public method {method}. Try {shown}:{of}::{public[0] if public else 'METHOD'}")
    if not method and not {*INTERFACES} & {parent for each in family for parent in each.above}:
        named = f"Try {shown}:{of}::{public[0]}" if public else f"Try {SHAPE}"
        raise BadInput(f"{of} is neither a RequestHandler nor a RequestStreamHandler, and no method is named. {named}")


def _guess(shown: str) -> str:
    return f" Try {next(iter(handlers_in(Path(shown))), SHAPE)}"


def _with_needs(artifact: str) -> list[Path]:
    """The jars of an artifact of AWS's and of what it needs: of the newest version that Maven's or Gradle's cache has
    whole. Empty if there is none."""
    versions = {each.name for place in _caches(GROUP, artifact) for each in place.glob("*/")}
    for version in sorted(versions, key=lambda text: [*map(int, re.findall(r"\d+", text))], reverse=True):
        jar, described = _cached(GROUP, artifact, version), _cached(GROUP, artifact, version, "pom")
        if jar is not None and described is not None:
            needed = [_cached(*each) for each in _needs(described)]
            if all(needed):
                return [jar, *filter(None, needed)]
    return []


def _caches(group: str, artifact: str) -> Iterator[Path]:
    """Where Maven and Gradle keep the versions of an artifact."""
    home = Path.home()
    yield home / ".m2" / "repository" / group.replace(".", "/") / artifact
    yield Path(os.environ.get("GRADLE_USER_HOME") or home / ".gradle", "caches/modules-2/files-2.1", group, artifact)


def _cached(group: str, artifact: str, version: str, ending: str = "jar") -> Path | None:
    own = f"linux-{platform.machine().replace('aarch64', 'aarch_64')}"
    names = [f"{artifact}-{version}{part}.{ending}" for part in ("", f"-{own}")]
    places = [place / version for place in _caches(group, artifact)]
    return next((path for name in names for each in places for path in sorted(each.glob(f"**/{name}"))), None)


def _needs(described: Path) -> Iterator[tuple[str, str, str]]:
    """Group, artifact and version of what a pom needs at run time."""
    try:
        project = ElementTree.parse(described).getroot()
    except (ElementTree.ParseError, OSError):
        return
    for each in project.iterfind("./{*}dependencies/{*}dependency"):
        if each.findtext("{*}scope", "compile") in ("compile", "runtime"):
            group, artifact, version = (
                each.findtext(f"{{*}}{part}", "") for part in ("groupId", "artifactId", "version")
            )
            yield group, artifact, version


def _our_client(java: _Java, notify: Callable[[str], None]) -> Path:
    """The folder of our client's classes, compiled if they are not yet. Raises BadInput."""
    files = sorted(SOURCES.glob("*.java"))
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()[:12]
    folder = cache() / f"java-client-{digest}"
    if folder.is_dir():
        return folder
    beside = java.program.with_name("javac")
    compiler = str(beside) if beside.is_file() else shutil.which("javac")
    if compiler is None:
        raise BadInput(
            f"{java.program} is of a JRE, and truemem's client must be compiled once: no javac is beside it or on the"
            f" PATH. Install a JDK, or add {GROUP}:{CLIENT_JAR} to the project"
        )
    notify(f"compiling truemem's client for Java into {folder}, once: this takes some seconds")
    with made_once(folder) as making:
        done = _run([compiler, "--release", str(OLDEST), "-nowarn", "-d", str(making), *map(str, files)])
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[0]
            raise BadInput(f"{compiler} failed: {said}. Put a JDK from {OLDEST} on first on the PATH")
    return folder


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Raises BadInput for what cannot be started."""
    # without the variables that would be said on standard error, or end it
    variables = {name: value for name, value in os.environ.items() if name not in OPTIONS}
    try:
        return subprocess.run(command, env=variables, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise BadInput(f"cannot run {command[0]}: {error.strerror}. Put a JDK first on the PATH") from None
