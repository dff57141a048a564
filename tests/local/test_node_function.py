"""A Node.js handler: AWS's own client, compiled beforehand or by npm, and what is said where that cannot be."""

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from truemem_workbench.local import BadInput, LocalLambda, Settings
from truemem_workbench.local.configuration import node_function
from truemem_workbench.local.configuration.node_function import (
    BUILD_TOOLS,
    RUNTIMES,
    SHIPPED,
    from_node_handler,
    installed_client,
)
from truemem_workbench.target.resolve import resolve

from tests.attach.pages import block
from tests.local.conftest import LocalRun, executable

HANDLER = """
let calls = 0;
export async function handler(event, context) {
  if (event.raise) throw new RangeError(event.raise);
  calls += 1;
  const { version, execArgv } = process;
  return { event, calls, version, runtime: process.env.AWS_EXECUTION_ENV, execArgv };
}
"""
NODE = Path(shutil.which("node") or "/nowhere")
needs_node = pytest.mark.skipif(not NODE.is_file(), reason="no node on the path")


def release(node: Path) -> str:
    """Such as `24.1.0`."""
    return subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip("v\n")


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
def test_only_the_runtime_of_the_node_here_is_taken(index: Path, runtime: str) -> None:
    own = f"nodejs{release(NODE).partition('.')[0]}.x"
    if runtime == own:
        assert from_node_handler("index.mjs:handler", runtime, pytest.fail).runtime == own
        return
    with pytest.raises(BadInput, match=f"^--runtime {runtime} needs Node.js {runtime[6:8]}, and "):
        from_node_handler("index.mjs:handler", runtime, pytest.fail)


@needs_node
@pytest.mark.skipif(not SHIPPED[-1].is_dir(), reason="not built: make layer")
def test_awss_client_is_there_without_npm_and_compiler(
    index: Path, monkeypatch: pytest.MonkeyPatch, local_run: LocalRun
) -> None:
    programs, cache = index.parent / "programs", index.parent / "cache"
    programs.mkdir()
    for tool in BUILD_TOOLS:
        executable(programs / tool, f"#!/bin/sh\ntouch {index.parent}/called\nexit 1\n")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("TRUEMEM_CACHE", str(cache))
    done = local_run("index.mjs:handler", "--event", '{"n": 1}', "--invocations", "2")
    failed = local_run("index.mjs:handler", "--event", '{"raise": "boom"}')
    assert f'{{"event":{{"n":1}},"calls":2,"version":"v{release(NODE)}"' in done.stdout, done.stderr
    assert f'"runtime":"AWS_Lambda_nodejs{release(NODE).partition(".")[0]}.x"' in done.stdout
    assert '"--max-semi-space-size=8","--max-old-space-size=461"]' in done.stdout  # of 512 MB
    assert "error, RangeError" in failed.stdout
    assert not (index.parent / "called").exists()
    assert not list(cache.glob("aws-lambda-ric*"))


CALLBACK = """
let later = 0;
exports.handler = (event, context, callback) => {
  const answer = { waits: context.callbackWaitsForEmptyEventLoop };
  context.callbackWaitsForEmptyEventLoop = event.waits;
  setTimeout(() => (answer.later = later += 1), 20);
  callback(null, answer);
};
"""
REFUSED = "support for callback-based function handlers starting with Node.js 24"
REFUSED_AT_ONCE = "does not support callback-based function handlers when using Node.js 22 with Managed Instances"


@needs_node
@pytest.mark.skipif(not SHIPPED[-1].is_dir(), reason="not built: make layer")
def test_a_callback_is_served_where_lambda_serves_it(index: Path) -> None:
    """By the runtime of the template, whichever node is here."""
    index.with_name("app.js").write_text(CALLBACK)

    def answers(runtime: str, *events: object, managed_instances: int | None = None) -> list[object]:
        index.with_name("template.yaml").write_text(
            "Resources:\n  F:\n    Type: AWS::Serverless::Function\n"
            f"    Properties: {{Runtime: {runtime}, Handler: app.handler, CodeUri: .}}\n"
        )
        function = resolve("template.yaml:F").function.standing_for(runtime)
        with LocalLambda(function, Settings(managed_instances=managed_instances)) as local:
            return [local.invoke(event).payload for event in events]

    both = answers("nodejs22.x", {"waits": True}, {"waits": False})
    assert both == [{"waits": True, "later": 1}, {"waits": True}]
    assert REFUSED in str(answers("nodejs24.x", {}))
    assert REFUSED_AT_ONCE in str(answers("nodejs22.x", {}, managed_instances=1))


@pytest.fixture
def not_for_this_node(index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A client is there that this node cannot load; the folder of what npm installs, which is empty."""
    client = index.parent / "shipped" / platform.machine().replace("aarch64", "arm64")
    client = client / "node_modules" / "aws-lambda-ric"
    client.mkdir(parents=True)
    (client / "index.mjs").touch()
    (client / "rapid-client.node").write_bytes(b"of another architecture")
    monkeypatch.setattr(node_function, "SHIPPED", (index.parent / "shipped",))
    monkeypatch.setenv("TRUEMEM_CACHE", str(index.parent / "cache"))
    return index.parent / "cache"


@needs_node
def test_elsewhere_npm_compiles_it_or_says_what_it_needs(
    not_for_this_node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(not_for_this_node))
    with pytest.raises(BadInput) as error:
        installed_client(NODE, pytest.fail)
    needed = "npm needs npm, cmake, make, g++, xz, python3 to do that. Install it, or run it through a bootstrap"
    assert f"AWS's runtime client is not compiled for {NODE} (Node.js v{release(NODE)}, " in str(error.value)
    assert needed in str(error.value)


@needs_node
@pytest.mark.skipif(any(shutil.which(tool) is None for tool in BUILD_TOOLS), reason="no npm, or no compiler")
def test_an_installation_that_fails_leaves_nothing(not_for_this_node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:1")
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setenv("npm_config_cache", str(not_for_this_node / "npm"))
    notified: list[str] = []
    with pytest.raises(BadInput, match=r"^npm ci failed: .*\. Fix that, or run it through a bootstrap") as error:
        installed_client(NODE, notified.append)
    assert "\n" not in str(error.value)
    assert "npm does that now, once, into " in notified[0]
    assert notified[0].endswith("It takes 1 to 5 minutes, and needs the network")
    assert not list(not_for_this_node.glob("aws-lambda-ric*"))


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
def test_sizes_in_node_options_count_as_on_lambda(not_for_this_node: Path, options: str, limit_mib: int | None) -> None:
    """A stand-in for the client tells what it was started with, at 1,024 MB. See how Lambda starts Node.js."""
    client = (
        not_for_this_node / f"aws-lambda-ric-3-4-nodev{release(NODE)}" / "node_modules" / "aws-lambda-ric" / "index.mjs"
    )
    client.parent.mkdir(parents=True)
    client.write_text(
        "import v8 from 'node:v8';"
        "console.log(JSON.stringify([process.execArgv, v8.getHeapStatistics().heap_size_limit / 2 ** 20]))"
    )
    command = from_node_handler("index.mjs:handler", None, pytest.fail, deployed="nodejs24.x").command
    variables = {"PATH": "/bin:/usr/bin", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024", "NODE_OPTIONS": options}
    flags, limit = json.loads(subprocess.run(command, env=variables, stdout=-1, check=True).stdout)
    sizes = ["--max-semi-space-size=17", "--max-old-space-size=922"]
    assert flags == ["--expose-gc", "--max-http-header-size=81920", *([] if options else sizes)]
    assert limit == limit_mib or limit_mib is None
