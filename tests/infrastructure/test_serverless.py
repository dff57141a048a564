"""The page's snippet for the Serverless Framework: what the framework packages."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from testing.installs import CACHE, node_packages
from tests.attach.pages import block
from tests.attach.test_snippets import or_skip
from tests.infrastructure.cdk import ARN, EXACT, HERE
from tests.scenarios.clients.installed import node


@pytest.mark.nightly
@pytest.mark.timeout(400)  # the framework is installed once
def test_the_packaged_function_has_them(tmp_path: Path) -> None:
    framework = or_skip(lambda: node_packages(CACHE / "serverless", HERE / "tools" / "serverless"))
    (tmp_path / "serverless.yml").write_text(block("attach.md", "serverless"))
    (tmp_path / "app.py").write_text("def handler(event, context): ...\n")
    command: list[str | Path] = [or_skip(node), framework / "serverless" / "bin" / "serverless.js", "package"]
    variables = {**os.environ, "SLS_TELEMETRY_DISABLED": "1", "SLS_NOTIFICATIONS_MODE": "off", "CI": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    template: Any = json.loads((tmp_path / ".serverless" / "cloudformation-template-update-stack.json").read_text())
    function = template["Resources"]["MyFunctionLambdaFunction"]["Properties"]
    assert (function["Layers"], function["Architectures"]) == ([ARN], ["x86_64"])
    assert function["Environment"]["Variables"] == EXACT
