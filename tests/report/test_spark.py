"""`truemem report --engine spark`: real Spark, in processes of its own, beside one machine on the same files."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.report.collect import part_count
from truemem_workbench.report.spark import MOST_PARTS

from tests.report.conftest import Command
from tests.report.fleet_files import write
from tests.report.written import life, log
from tests.triage.logged import flat, noisy
from tests.triage.logged import life as logged_life

ROOT = Path(__file__).parents[2]
JAVA = shutil.which("java") or os.environ.get("JAVA_HOME")
with_spark = [
    pytest.mark.nightly,  # Spark starts in ten seconds or more
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("pyspark") is None, reason="pyspark is not installed: make spark"),
    pytest.mark.skipif(JAVA is None, reason="Spark needs Java 17"),
]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    write(folder)
    return folder


class TestWithSpark:
    pytestmark = with_spark

    @pytest.mark.parametrize(
        "options",
        [[], ["--by", "model_id", "--invocations-per-month", "1000000"], ["--function", "leaks-alone"]],
        ids=["all", "by", "function"],
    )
    def test_it_says_what_one_machine_says(self, fleet: Path, options: list[str], truemem: Command) -> None:
        of_one_machine = truemem("report", *sorted(fleet.iterdir()), "--json", *options).document
        assert len(of_one_machine["functions"]) >= (1 if "--function" in options else 10)
        assert spark(fleet, "--json", *options) == of_one_machine

    def test_functions_without_the_sidecar_are_judged(self, tmp_path: Path, truemem: Command) -> None:
        lines = [*logged_life([*noisy(60, 1), 600.0], "a"), *logged_life(flat(50), "b")]
        group = {"logGroup": "/aws/lambda/orders"}
        files = [
            log(
                tmp_path, [json.dumps({**group, "logStream": e.stream, "logEvents": [{"message": e.text}]})], f"{n}.log"
            )
            for n, e in enumerate(lines)
        ]
        of_one_machine = truemem("report", *files, "--json").document
        assert of_one_machine["without_sidecar"][0]["invocations"] == len(lines)
        assert truemem("report", "--engine", "spark", *files, "--json").document == of_one_machine

    def test_a_large_file_is_divided(self, tmp_path: Path, truemem: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        from truemem_workbench.report import spark as engine

        monkeypatch.setattr(engine, "WHOLE", 1000)
        large = log(tmp_path, life("a", 2000, grows=0.1), "a, [b].log")
        small = log(tmp_path, [], "small.log")
        of_one_machine = truemem("report", large, small, "--json").document
        assert truemem("report", "--engine", "spark", large, small, "--json").document == of_one_machine
        spread = log(tmp_path, [json.dumps(json.loads(each), indent=2) for each in life("a", 20)], "spread.log")
        refused = truemem("report", "--engine", "spark", spread)
        assert (refused.code, refused.out) == (2, "")
        assert "and not one event a line: Spark cannot divide it" in refused.err

    def test_names_are_read_as_they_are(
        self, tmp_path: Path, truemem: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "x[1]"
        folder.mkdir()
        files = [log(folder, life(name, 20), name) for name in ("a{b.log", "c}, d.log", "e.log")]
        of_one_machine = truemem("report", *files, "--json").document
        monkeypatch.chdir(folder)
        assert truemem("report", "--engine", "spark", *files, "--json").document == of_one_machine
        assert truemem("report", "--engine", "spark", "*.log", "--json").document == of_one_machine
        one = truemem("report", files[2], "--json").document
        assert truemem("report", "--engine", "spark", f"file://{tmp_path}/x?1?/e.log", "--json").document == one

    @pytest.mark.parametrize(
        "content",
        [gzip.compress("\n".join(life("a", 200)).encode()), "\n".join(life("a", 20)).encode("utf-16")],
        ids=["gzipped", "UTF-16"],
    )
    def test_a_large_file_that_cannot_be_divided_is_named(
        self, content: bytes, tmp_path: Path, truemem: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from truemem_workbench.report import spark as engine

        monkeypatch.setattr(engine, "WHOLE", 1000)
        (tmp_path / "large.log").write_bytes(content)
        refused = truemem("report", "--engine", "spark", tmp_path)
        assert (refused.code, refused.out) == (2, "")
        assert f"{tmp_path}/large.log is not a log, because it is not text" in refused.err

    def test_ctrl_c_ends_it_and_leaves_no_folder(self, tmp_path: Path) -> None:
        logs, temporary = tmp_path / "logs", tmp_path / "temporary"
        logs.mkdir()
        temporary.mkdir()
        for number in range(8):
            log(logs, [each for at in range(200) for each in life(f"{number}-{at}")], f"{number}.log")
        command = [sys.executable, "-m", "truemem_workbench.commands", "report", "--engine", "spark", str(logs)]
        variables = os.environ | {"TMPDIR": str(temporary)}
        with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            while process.poll() is None and not list(temporary.rglob("*.log")):
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
        assert process.returncode == 128 + signal.SIGINT, errors.decode()[-2000:]
        assert errors.decode().endswith("truemem: ended by SIGINT\n")
        assert list(temporary.glob("truemem-report-*")) == []

    def test_it_can_be_submitted_with_the_package_as_a_zip(self, fleet: Path, tmp_path: Path, truemem: Command) -> None:
        package = tmp_path / "truemem"
        for folder in ("extension/truemem", "workbench/truemem_workbench"):
            shutil.copytree(ROOT / folder, package / Path(folder).name, ignore=shutil.ignore_patterns("__pycache__"))
        archive = shutil.make_archive(str(tmp_path / "truemem"), "zip", package)
        submit = Path(sys.executable).with_name("spark-submit")
        command: list[str | Path] = [submit, "--master", "local-cluster[2,1,1024]", "--py-files", archive]
        command += [ROOT / "deploy" / "spark" / "truemem_report.py", fleet, "--output", tmp_path / "report.json"]
        variables = {"PYSPARK_PYTHON": sys.executable, "PYTHONNOUSERSITE": "1"}
        done = subprocess.run(
            command, env=os.environ | variables, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        made = json.loads((tmp_path / "report.json").read_text())
        assert made == truemem("report", *sorted(fleet.iterdir()), "--json").document

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["empty"], "no line of the sidecar and no REPORT in these files"),
            (["nothing-*.log"], "Spark: [PATH_NOT_FOUND] Path does not exist"),
            (["s3://bucket/logs"], 'Spark: No FileSystem for scheme "s3"'),
            (["bad.log"], "is not a log, because it is not text"),
        ],
    )
    def test_what_cannot_be_read_is_told_in_one_line(
        self, arguments: list[str], said: str, tmp_path: Path, truemem: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "empty").mkdir()
        (tmp_path / "bad.log").write_bytes(bytes(range(256)) * 40)
        ran = truemem("report", "--engine", "spark", *arguments)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert said in ran.err


def spark(*arguments: str | Path, **variables: str) -> Any:
    command = [sys.executable, "-m", "truemem_workbench.commands", "report", "--engine", "spark", *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--master", "local"], "--master without --engine spark. Leave it out, or add --engine spark"),
        (["--engine", "spark", "--output", "x.html"], "--engine spark draws no page. Try truemem page"),
        (["--engine", "spark", "--log-group", "x"], "--engine spark reads files, not CloudWatch"),
        (["--engine", "spark", "-"], "--engine spark does not read standard input"),
        (["--engine", "spark", "/logs/_x.log"], "does not read /logs/_x.log, because its name begins with _ or ."),
        (["--engine", "spark", "/nowhere.log"], "/nowhere.log cannot be read: No such file or directory"),
        (["--engine", "spark", "--master", "x", __file__], "--master x is none. Try local[*], spark://HOST:7077"),
    ],
)
def test_what_spark_does_not_do_is_told_before_it_starts(arguments: list[str], said: str, truemem: Command) -> None:
    files = [] if "--log-group" in arguments or len(arguments) == 3 or __file__ in arguments else [__file__]
    assert said in truemem("report", *arguments, *files).refusal


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("pyspark", "pyspark is not installed. Try pip install 'truemem[spark]'"),
        ("java", "Spark needs Java, and there is none. Install Java 17, or set JAVA_HOME"),
    ],
)
def test_what_is_missing_is_named(
    missing: str, said: str, tmp_path: Path, truemem: Command, monkeypatch: pytest.MonkeyPatch
) -> None:

    if missing == "pyspark":
        monkeypatch.setattr(
            "truemem_workbench.support.bad_input.find_spec", lambda name: None if name == "pyspark" else 1
        )
    else:
        monkeypatch.setattr("truemem_workbench.report.spark.need", lambda _: None)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert said in truemem("report", "--engine", "spark", log(tmp_path, life("a", 10))).refusal


def test_the_report_can_be_an_object_in_s3(aws: Callable[[str], Any], tmp_path: Path, truemem: Command) -> None:
    aws("s3").create_bucket(Bucket="reports")
    path = log(tmp_path, life("a", 150))
    ran = truemem("report", path, "--output", "s3://reports/daily/report.json", "--output", "s3://reports/report.csv")
    assert ran.code == 0
    objects = {
        name: aws("s3").get_object(Bucket="reports", Key=name)["Body"].read()
        for name in ("daily/report.json", "report.csv")
    }
    assert json.loads(objects["daily/report.json"]) == truemem("report", path, "--json").document
    assert objects["report.csv"].startswith(b"function,version,environmentId,")
    refused = truemem("report", path, "--output", "s3://nowhere/report.json")
    assert refused.code == 2
    assert "s3://nowhere/report.json cannot be written: NoSuchBucket" in refused.err


def test_a_part_is_a_batch_but_there_are_no_more_than_a_thousand() -> None:
    sizes = ((1, 2), (9 * 10**9, 2), (10**12, 100))
    assert [part_count(size, cores, MOST_PARTS) for size, cores in sizes] == [2, 100, 1000]
