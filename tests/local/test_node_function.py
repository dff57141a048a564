"""A Node.js handler: AWS's own client from npm, and what is said where that cannot be."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from truemem_workbench.local import BadInput
from truemem_workbench.local.configuration.node_function import (
    BUILD_TOOLS,
    RUNTIMES,
    from_node_handler,
    installed_client,
)

from tests.attach.pages import block
from tests.local.conftest import LocalRun, executable, run

HANDLER = """
let calls = 0;
export async function handler(event, context) {
  if (event.raise) throw new RangeError(event.raise);
  calls += 1;
  const { version, execArgv } = process;
  return { event, calls, version, runtime: process.env.AWS_EXECUTION_ENV, execArgv };
}
"""
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="no node on the path")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "index.mjs"
    path.write_text(HANDLER)
    return path


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("app.py:handler", "app.py:handler is no Node.js handler. Try PATH/index.mjs:handler"),
        ("nowhere.mjs:handler", "no file nowhere.mjs. Try PATH/index.mjs:handler"),
        ("index.cjs:handler", "Lambda runs index.mjs for the handler index.handler, not index.cjs beside it"),
        ("index.mjs:a-b", "'a-b' is no name of an export of index.mjs. Try index.mjs:handler"),
        ("index.mjs:handler", "no node is on the PATH. Install Node.js 24, or run it through a bootstrap"),
    ],
)
def test_an_unusable_spec_is_refused_in_one_line(
    index: Path, monkeypatch: pytest.MonkeyPatch, spec: str, says: str
) -> None:
    monkeypatch.setenv("PATH", str(index.parent))
    index.with_suffix(".cjs").write_text(HANDLER)
    with pytest.raises(BadInput) as error:
        from_node_handler(spec, "nodejs24.x", pytest.fail)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@needs_node
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_another_node_or_no_compiler_is_refused(index: Path, monkeypatch: pytest.MonkeyPatch, runtime: str) -> None:
    (index.parent / "node").symlink_to(Path(str(NODE)).resolve())
    monkeypatch.setenv("PATH", str(index.parent))
    monkeypatch.setenv("TRUEMEM_CACHE", str(index.parent / "cache"))
    with pytest.raises(BadInput) as error:
        from_node_handler("index.mjs:handler", runtime, pytest.fail)
    missing = "aws-lambda-ric needs npm, cmake, make, g++, xz, python3 to be installed"
    assert f"--runtime {runtime} needs Node.js {runtime[6:8]}, and " in str(error.value) or missing in str(error.value)


@pytest.mark.skipif(any(shutil.which(tool) is None for tool in ("node", *BUILD_TOOLS)), reason="no npm, or no compiler")
def test_an_installation_that_fails_leaves_nothing(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUEMEM_CACHE", str(index.parent / "cache"))
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:1")
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setenv("npm_config_cache", str(index.parent / "npm"))
    notified: list[str] = []
    with pytest.raises(BadInput, match=r"^npm ci failed: .*\. Fix that, or run it through a bootstrap") as error:
        installed_client(Path(str(NODE)), notified.append)
    assert "\n" not in str(error.value)
    assert notified[0].startswith("installing AWS's runtime client for Node.js v")
    assert not list((index.parent / "cache").iterdir())


@needs_node
def test_the_bootstrap_of_the_page_runs_a_handler(index: Path, local_run: LocalRun) -> None:
    executable(index.parent / "bootstrap", block("../libraries/README.md", "bootstrap"))
    done = local_run("./bootstrap", "--event", '{"n": 1}', "--invocations", "2", cwd=index.parent)
    failed = local_run("./bootstrap", "--event", '{"raise": "boom"}', cwd=index.parent)
    assert (done.returncode, failed.returncode) == (0, 1)
    assert '{"event":{"n":1},"calls":2,' in done.stdout
    assert '"errorType":"RangeError","errorMessage":"boom"' in failed.stdout
    assert "can be judged, 128 are needed" in done.stdout


@needs_node
@pytest.mark.parametrize(
    ("options", "limit_mib"),
    [
        ("", 922 + 3 * 32),  # V8 rounds 17 up to a power of two
        ("--no-warnings --max-old-space-size=300 --max-semi-space-size=4", 312),
        ("--max_old_space_size=300 --max_semi_space_size=4", 312),
        ("--max-semi-space-size=4", None),
    ],
)
def test_sizes_in_node_options_count_as_on_lambda(
    index: Path, monkeypatch: pytest.MonkeyPatch, options: str, limit_mib: int | None
) -> None:
    """A stand-in for the client tells what it was started with, at 1,024 MB. See how Lambda starts Node.js."""
    version = subprocess.run([str(NODE), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    client = index.parent / f"aws-lambda-ric-node{version}" / "node_modules" / "aws-lambda-ric" / "index.mjs"
    client.parent.mkdir(parents=True)
    client.write_text(
        "import v8 from 'node:v8';"
        "console.log(JSON.stringify([process.execArgv, v8.getHeapStatistics().heap_size_limit / 2 ** 20]))"
    )
    monkeypatch.setenv("TRUEMEM_CACHE", str(index.parent))
    command = from_node_handler("index.mjs:handler", None, pytest.fail).command
    variables = {"PATH": "/bin:/usr/bin", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024", "NODE_OPTIONS": options}
    flags, limit = json.loads(subprocess.run(command, env=variables, stdout=-1, check=True).stdout)
    sizes = ["--max-semi-space-size=17", "--max-old-space-size=922"]
    assert flags == ["--expose-gc", "--max-http-header-size=81920", *([] if options else sizes)]
    assert limit == limit_mib or limit_mib is None


@needs_node
@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_awss_own_client_runs_a_handler(index: Path) -> None:
    """Installs the client if it is not in the cache yet: that takes minutes."""
    version = subprocess.run([str(NODE), "--version"], capture_output=True, text=True, check=True).stdout[1:3]
    installed_client(Path(str(NODE)))
    command = ("index.mjs:handler", "--runtime", f"nodejs{version}.x", "--event")
    done = run(*command, "{}", "--invocations", "2")
    failed = run(*command, '{"raise": "boom"}')
    assert f'"calls":2,"version":"v{version}.' in done.stdout, done.stderr
    assert f'"runtime":"AWS_Lambda_nodejs{version}.x"' in done.stdout
    assert '"--max-semi-space-size=8","--max-old-space-size=461"]' in done.stdout  # of 512 MB
    assert "error, RangeError" in failed.stdout
