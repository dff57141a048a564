"""A Java handler: what is on its class path, how its JVM starts, what our own client makes of events and of errors."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import BadInput, Settings
from truemem_workbench.local.configuration.java_function import (
    CLIENT_JAR,
    CORE_JAR,
    NOTICE,
    from_java_handler,
    start_line,
)
from truemem_workbench.target.resolve import resolve

from tests.local.conftest import FUNCTIONS, Local, executable

SOURCES = FUNCTIONS / "java"
CORE = "aws-lambda-java-core-1.4.0"
needs_jdk = pytest.mark.skipif(shutil.which("javac") is None, reason="there is no JDK: no javac on the path")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Maven builds it: classes, a thin jar, and the core's in target/dependency."""
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK: no javac on the path")
    root, made = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("made")
    target = root / "target"
    (root / "pom.xml").touch()
    files = map(str, SOURCES.rglob("*.java"))
    subprocess.run(["javac", "-g", "--release", "17", "-d", made / "core", *files], check=True)
    (made / "app" / "com").mkdir(parents=True)
    (made / "core" / "com" / "example").rename(made / "app" / "com" / "example")
    for name, jar in (("app", target / "app.jar"), ("core", target / "dependency" / f"{CORE}.jar")):
        jar.parent.mkdir(parents=True, exist_ok=True)
        Path(shutil.make_archive(str(made / name), "zip", made / name)).rename(jar)
    (made / "app").rename(target / "classes")
    shutil.copytree(SOURCES / "com", root / "src" / "main" / "java" / "com")
    return root


@pytest.fixture
def here(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to work in, without a JAVA_HOME, and without what Maven has of this machine's user."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(project / "home"))
    monkeypatch.setenv("TRUEMEM_CACHE", str(project / "cache"))
    monkeypatch.chdir(project)
    return project


def answer(spec: str, event: object = None, **settings: Any) -> Any:
    function, _ = from_java_handler(spec)
    with Local(function, Settings(**settings)) as local:
        return local.invoke(event).payload


# --- what it takes and gives ------------------------------------------------------------------------------------------

ORDER = {"id": "7", "items": [{"name": "pen", "count": 2}], "kinds": {"a": "GIFT"}, "due": "2026-11-30", "other": 1}
SHAPES = {
    "App": (ORDER, {"id": "7", "first": "pen", "kind": "GIFT", "day": 30, "paid": True, "items": ORDER["items"]}),
    "App::map": (GIVEN := {"a": [1, 2.5, None, True, "ü\n\\"], "b": {}, "c": 1 << 40, "d": -1e-7}, GIVEN),
    "App::sum": ([1, 2, 3], 6),
    "App::text": ("hello", 'hello ü "quoted"'),
    "App::record": ({"x": 1, "y": 2}, {"x": 2, "y": 2.0}),
    "App::queue": (
        {"Records": [{"eventSourceARN": "arn:aws:sqs", "detail-type": "Order", "sent": 1.5}]},
        "[arn:aws:sqs Order 1500]",
    ),
    "App::nothing": ({}, None),
    "Stream": ({"a": 1}, [{"a": 1}]),
}


@pytest.mark.parametrize("handler", SHAPES)
def test_each_shape_of_handler_gets_its_event(here: Path, handler: str) -> None:
    event, expected = SHAPES[handler]
    said = answer(f"target/classes:com.example.{handler}", event)
    assert said == expected


def test_the_context_and_the_heap_are_as_on_lambda(here: Path) -> None:
    said = answer("target/app.jar:com.example.App::context", {}, name="Orders", memory_mib=512)
    heap = said.pop("heap")
    runtime = said.pop("environment")
    assert said == {"name": "Orders", "memory": 512, "id": 36, "left": True}
    assert 415 < heap <= 435.2  # one of the two halves of the young generation is not counted
    assert runtime.startswith("AWS_Lambda_java")


def test_errors_have_type_message_and_the_handlers_stack(here: Path) -> None:
    function, _ = from_java_handler("target/classes:com.example.App::fails")
    with Local(function, Settings()) as local:
        failed = local.invoke({}).payload
        unread = local.invoke([1]).payload
    assert (failed["errorType"], failed["errorMessage"]) == ("java.lang.IllegalStateException", "boom")
    assert [each.partition("(")[0] for each in failed["stackTrace"]] == ["com.example.App.fails"]
    assert unread["errorMessage"] == "An error occurred during JSON parsing"
    broken = answer("target/classes:com.example.Broken::handle", {})
    assert (broken["errorType"], broken["errorMessage"]) == ("java.lang.UnsupportedOperationException", "no database")


# --- what is found ----------------------------------------------------------------------------------------------------


def test_the_source_and_its_line_are_found(here: Path) -> None:
    target = resolve("target/app.jar:com.example.App::keeps")
    assert target.source == Path("src/main/java/com/example/App.java")
    assert "void keeps" in target.source.read_text().splitlines()[(target.line or 0) - 1]
    assert (target.name, target.is_explicable, target.notices) == ("App", True, (NOTICE,))


TEMPLATE = """
Globals: {Function: {Handler: com.example.App, Runtime: java8.al2, MemorySize: 256}}
Resources:
  Jar: {Type: AWS::Serverless::Function, Properties: {CodeUri: target/app.jar}}
  Built: {Type: AWS::Serverless::Function, Properties: {CodeUri: Built}}
  Sources: {Type: AWS::Serverless::Function, Properties: {CodeUri: ., Layers: [arn]}}
"""


def test_a_templates_function_is_a_jar_or_what_sam_builds(here: Path) -> None:
    Path("template.yaml").write_text(TEMPLATE)
    Path("Built").symlink_to("target/classes")
    Path("Built/lib").mkdir()
    shutil.copy(f"target/dependency/{CORE}.jar", "Built/lib")
    for name, root in (("Jar", here / "target"), ("Built", here / "target/classes")):
        target = resolve(f"template.yaml:{name}")
        assert (target.function.task_root, target.function.language, target.memory_mib) == (root, "java", 256)
        assert target.source == Path("src/main/java/com/example/App.java")
        assert (NOTICE in target.notices, any(each.startswith("java8.al2 is asked") for each in target.notices)) == (
            True,
        ) * 2
    with pytest.raises(BadInput, match=r"Sources in template\.yaml is no jar, .* and target/classes:com\.example\.App"):
        resolve("template.yaml:Sources")


CACHES = (".m2/repository/com/amazonaws/{}/2.6.0", ".gradle/caches/modules-2/files-2.1/com.amazonaws/{}/2.6.0/1a2b")


def cached(place: Path, artifact: str, needs: str = "") -> Path:
    """An artifact of AWS's, in its folder of a cache."""
    place.mkdir(parents=True)
    jar = place / f"{artifact}-2.6.0.jar"
    shutil.copy(f"target/dependency/{CORE}.jar", jar)
    (place / f"{artifact}-2.6.0.pom").write_text(
        f'<project xmlns="http://maven.apache.org/POM/4.0.0"><dependencies>{needs}</dependencies></project>'
    )
    return jar


@pytest.mark.parametrize("form", CACHES)
def test_awss_own_client_is_taken_from_a_builds_cache(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GRADLE_USER_HOME", raising=False)
    needs = "".join(
        f"<dependency><groupId>com.amazonaws</groupId><artifactId>{name}</artifactId><version>2.6.0</version>"
        f"<scope>{scope}</scope></dependency>"
        for name, scope in (("aws-lambda-java-core", "compile"), ("junit", "test"))
    )
    client = cached(tmp_path / form.format(CLIENT_JAR), CLIENT_JAR, needs)
    assert NOTICE in from_java_handler("target/app.jar:com.example.App")[1]  # what it needs is not there
    core = cached(tmp_path / form.format(CORE_JAR), CORE_JAR)
    function, notices = from_java_handler("target/app.jar:com.example.App")
    *_, path, main, handler = function.command
    assert path.startswith(f"{client}:{core}:{here}/target/app.jar:")
    assert (main, handler) == ("com.amazonaws.services.lambda.runtime.api.client.AWSLambda", "com.example.App")
    assert notices == ()


SAID_NO_METHOD = "com.example.Broken is neither a RequestHandler nor a RequestStreamHandler, and no method is named"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("target/no.jar:com.example.App", "no file target/no.jar. Build it, and try PATH/app.jar:com.example.App"),
        ("target/app.jar", "target/app.jar names no handler. Try target/app.jar:com.example.Stream"),
        ("target", "target names no handler. Try target/classes:com.example.Stream"),
        ("target/app.jar:App", "no class App in target/app.jar. Try target/app.jar:com.example.Stream"),
        (
            "target/app.jar:com.example.Stream::no",
            "has no public method no. Try target/app.jar:com.example.Stream::han",
        ),
        ("target/app.jar:com.example.Broken", f"{SAID_NO_METHOD}. Try target/app.jar:com.example.Broken::handle"),
        ("src/main/java/com/example/App.java:x", "com.example.App has no public method x. Try target/app.jar:"),
        ("pom.jar:com.example.App", "pom.jar is no jar that can be read: "),
    ],
)
def test_an_unusable_spec_is_refused_with_its_repair(here: Path, spec: str, says: str) -> None:
    shutil.copy("pom.xml", "pom.jar")
    with pytest.raises(BadInput) as error:
        resolve(spec)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_thin_jar_alone_is_refused_with_its_repair(here: Path, tmp_path: Path) -> None:
    alone = shutil.copy("target/app.jar", tmp_path)
    with pytest.raises(
        BadInput, match=r"needs aws-lambda-java-core, which is neither in it nor beside it\. Try mvn dep"
    ):
        from_java_handler(f"{alone}:com.example.App")


def fake_java(folder: Path, version: str) -> None:
    """A JRE of this version, first on the PATH."""
    executable(folder / "java", f"#!/bin/sh\necho '    java.version = {version}' >&2\n")


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("", "A handler in Java needs Java, and no java is on the PATH. Install a JDK, such as 25"),
        ("1.8.0_402", "java is Java 1.8.0_402, and 11 is the oldest that can run"),
        (
            "11.0.2",
            "com.example.App is compiled for Java 17, and .*/java is Java 11.0.2. Set JAVA_HOME to a JDK 17, or",
        ),
        (
            "21.0.1",
            "java is of a JRE, and truemem's client must be compiled once: no javac is beside it or on the PATH",
        ),
    ],
)
def test_a_java_that_cannot_run_it_is_named(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, says: str
) -> None:
    monkeypatch.setenv("TRUEMEM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    if version:
        fake_java(tmp_path, version)
    with pytest.raises(BadInput, match=says):
        from_java_handler("target/app.jar:com.example.App")


# --- how Lambda starts it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("java", "memory", "options", "flags"),
    [
        (17, 512, "", "-XX:+TieredCompilation -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MaxHeapSize=445645k"),
        (21, 512, "-XX:+UseG1GC -Xmx1g", "-XX:+TieredCompilation -XX:TieredStopAtLevel=1"),
        (17, 3008, "-XX:TieredStopAtLevel=4", "-XX:+UseSerialGC -XX:MaxHeapSize=2834432k"),
        (
            11,
            256,
            "",
            "-XX:-TieredCompilation -XX:ReservedCodeCacheSize=13107k -XX:MaxMetaspaceSize=26214k -XX:+UseSerialGC"
            " -XX:MaxHeapSize=222823k",
        ),
    ],
)
def test_the_jvm_starts_with_lambdas_flags(java: int, memory: int, options: str, flags: str) -> None:
    variables = {**os.environ, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory), "JAVA_TOOL_OPTIONS": options}
    command = ["/bin/sh", "-c", start_line(java), "/bin/echo", "-cp", "PATH"]
    said = subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout
    assert f" {flags} -cp PATH" in said
    assert said.count("-XX:") == flags.count("-XX:") + (java >= 17)  # and -XX:+ErrorFileToStderr
