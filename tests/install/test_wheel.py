"""Every command and the pytest plugin, from a wheel and in a user's own folder."""

import json
import zipfile
from pathlib import Path

import pytest

from tests.docs.test_docs_command import PAGES, run
from tests.install.conftest import Installed
from tests.layer.built import MACHINES, machine
from tests.report.written import life, log

APP = """
kept = []

def handler(event, context):
    if event.get("leak"):
        kept.append(b"1" * 2**16)
    return {"mib": len(b"1" * 5 * 2**20) >> 20}
"""
TEST = """
import pytest

@pytest.mark.memory(handler="app.py:handler", max_peak_mib=200)
def test_peak(lambda_environment):
    assert lambda_environment.invoke({}).payload == {"mib": 5}

@pytest.mark.memory(handler="app.py:handler", max_peak_mib=6)
def test_too_much(lambda_environment):
    lambda_environment.invoke({})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "test_app.py").write_text(TEST)
    return tmp_path


def test_it_has_what_a_user_runs_and_nothing_for_our_own_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    pages = {f"truemem_workbench/support/pages/{page.path}" for page in PAGES.values()}
    assert pages == {name for name in names if name.endswith(".md") and "dist-info" not in name}
    assert {"truemem/run", "truemem/exact", "truemem_workbench/page/assets/page.html"} <= {*names}
    samplers = {f"truemem_workbench/explain/malloc_sampler-{name}.so" for name in ("arm64", "x86_64")}
    assert samplers == {name for name in names if name.endswith(".so")}
    client = "truemem_workbench/local/configuration/aws-lambda-ric"
    assert {f"{client}/{each}/node_modules/aws-lambda-ric/rapid-client.node" for each in ("arm64", "x86_64")} < {*names}
    assert f"{client}/licences/THIRD-PARTY-LICENSES" in names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"truemem", "truemem_workbench"}
    assert not [name for name in names if "testing" in name]


def test_a_function_is_run_and_measured_in_exact_mode(bare: Installed, folder: Path) -> None:
    done = bare(
        "truemem", "local", "run", "app.py:handler", "--event", "{}", "--invocations", "2", "--json", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    logged = [json.loads(each["log"]["text"]) for each in said if each.get("log", {}).get("text", "").startswith("{")]
    records = [document for document in logged if "PeakRSS" in document]
    assert [record["mode"] for record in records] == ["exact"] * 2
    assert records[0]["heap"]["inUse"] > 0  # the wheel has the probe's files


def test_a_log_becomes_a_report_and_a_page(bare: Installed, folder: Path) -> None:
    log(folder, life(grows=2.0))
    reported = bare("truemem", "report", "log.txt", "--json", cwd=folder)
    assert [each["causes"] for each in json.loads(reported.stdout)["functions"]] == [{"leak": 1}]
    drawn = bare("truemem", "page", "log.txt", cwd=folder)
    assert drawn.returncode == 0, drawn.stderr
    assert "class Chart" in (folder / "page.html").read_text()


@pytest.mark.parametrize("asked", ["", "patterns", "patterns#fragmentation", "heap limit", "benchmarks/results/drift"])
def test_its_pages_are_those_of_the_clone(bare: Installed, folder: Path, asked: str) -> None:
    done = bare("truemem", "docs", *asked.split(), cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == run(*asked.split())


@pytest.mark.nightly  # the plugin of the checkout is tested in tests/check
def test_the_plugin_keeps_limits_in_another_project(bare: Installed, folder: Path) -> None:
    done = bare("python", "-m", "pytest", "-p", "no:cacheprovider", cwd=folder)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "max-peak" in done.stdout


def test_it_brings_the_layer_byte_for_byte(wheel: Path, zips: list[Path]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for path in zips:
            assert archive.read(f"truemem_workbench/layers/{path.name}") == path.read_bytes()


def test_its_layer_becomes_the_files_of_an_image(bare: Installed, folder: Path) -> None:
    done = bare("truemem", "layer-files", "--architecture", "arm64", "opt", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert machine(folder / "opt" / "extensions" / "truemem") == MACHINES["arm64"]


@pytest.mark.nightly
def test_the_demo_brings_its_own_function(complete: Installed, folder: Path) -> None:
    done = complete("truemem", "demo", "--invocations", "5", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert [each.get("error") for each in json.loads(done.stdout)["invocations"]] == [None] * 5
    assert (folder / "demo-output" / "memory.png").stat().st_size > 10_000
