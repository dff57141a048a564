"""The snippets of docs/attach.md: each as near to its own tool as this machine gets."""

from __future__ import annotations

import ast
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from layer.__main__ import main as layer_command
from layer.pins import ARCHITECTURES
from tests.attach import tools
from tests.attach.pages import block, blocks
from tests.installs import Missing
from tests.scenarios.clients.installed import node

PAGE = "attach.md"
ARN = "arn:aws:lambda:eu-west-1:123456789012:layer:truemem-x86_64:1"
DIST = str(next(option.default for option in layer_command.params if option.name == "output"))


def or_skip(find: Callable[[], Path]) -> Path:
    """What `find` finds; else the test is skipped with the reason."""
    try:
        return find()
    except Missing as reason:
        pytest.skip(str(reason))


def test_every_snippet_has_a_test_here_or_in_test_shell() -> None:
    own = "".join(Path(__file__).with_name(name).read_text() for name in ("test_snippets.py", "test_shell.py"))
    named = [made for made in blocks(PAGE) if made.language]
    assert all(f'"{made.name}"' in own for made in named)
    assert len(named) >= 11


def test_all_of_them_attach_the_same_arn() -> None:
    for name in ("cli", "sam", "cdk", "cdk-typescript", "terraform", "serverless"):
        assert ARN in block(PAGE, name)


# --- YAML -------------------------------------------------------------------------------------------------------------


def sam() -> dict[str, Any]:
    """The snippet in a template of its own; its code where `sam deploy` would have put it."""
    template: dict[str, Any] = yaml.safe_load(block(PAGE, "sam"))
    template["Resources"]["MyFunction"]["Properties"]["CodeUri"] = "s3://bucket/key"
    return {"AWSTemplateFormatVersion": "2010-09-09", "Transform": "AWS::Serverless-2016-10-31", **template}


class NoPolicies:
    """The translator asks for AWS's managed policies where a template names them."""

    def load(self) -> dict[str, str]:
        return {}


def test_sam_makes_a_function_with_the_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    translator: Any = importlib.import_module("samtranslator.translator.transform")  # it has no types
    translated = translator.transform(sam(), {}, NoPolicies())
    function = translated["Resources"]["MyFunction"]
    assert function["Type"] == "AWS::Lambda::Function"
    assert function["Properties"]["Layers"] == [ARN]
    assert function["Properties"]["Architectures"] == ["x86_64"]


def test_sam_passes_cfn_lint(tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    template.write_text(yaml.safe_dump(sam(), sort_keys=False))
    command = [str(Path(sys.executable).with_name("cfn-lint")), "--regions", "eu-west-1", "--", str(template)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_serverless_is_yaml_with_the_layer() -> None:
    service = yaml.safe_load(block(PAGE, "serverless"))
    assert service["functions"]["myFunction"]["layers"] == [ARN]
    assert service["provider"]["architecture"] == "x86_64"


# --- code -------------------------------------------------------------------------------------------------------------


def test_cdk_in_python_parses() -> None:
    calls = [made for made in ast.walk(ast.parse(block(PAGE, "cdk"))) if isinstance(made, ast.Call)]
    called = {made.func.attr: made for made in calls if isinstance(made.func, ast.Attribute)}
    assert set(called) == {"from_layer_version_arn", "add_layers"}
    assert ast.literal_eval(called["from_layer_version_arn"].args[2]) == ARN


def syntax_errors(source: str) -> str:
    """What TypeScript's own parser says, a line each."""
    compiler = or_skip(tools.typescript)
    command = [str(or_skip(node)), str(Path(tools.__file__).with_name("parse.js")), str(compiler)]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def test_cdk_in_typescript_parses() -> None:
    assert syntax_errors(block(PAGE, "cdk-typescript")) == ""
    assert "expected" in syntax_errors(block(PAGE, "cdk-typescript").replace(");", "", 1))


def run_terraform(folder: Path, *arguments: str) -> str:
    """Its output. Raises CalledProcessError if it fails."""
    # A configuration of the machine's user may send it elsewhere.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    command = [str(or_skip(tools.terraform)), *arguments]
    done = subprocess.run(
        command, cwd=folder, env={**environment, "CHECKPOINT_DISABLE": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_terraform_is_formatted(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text(block(PAGE, "terraform"))
    assert run_terraform(tmp_path, "fmt", "-check", "-diff") == ""


def test_terraform_validates(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text(block(PAGE, "terraform"))
    run_terraform(tmp_path, "init", "-input=false", f"-plugin-dir={or_skip(tools.aws_provider)}")
    assert "The configuration is valid" in run_terraform(tmp_path, "validate", "-no-color")


# --- files ------------------------------------------------------------------------------------------------------------


def test_the_image_copies_what_make_layer_leaves(tmp_path: Path) -> None:
    instructions = [line.split() for line in block(PAGE, "image").splitlines()]
    assert [words[0] for words in instructions] == ["FROM", "COPY"]
    _, source, target = instructions[1]
    assert source in {f"{DIST}/{architecture}/extensions/" for architecture in ARCHITECTURES}
    assert target == "/opt/extensions/"
    built = Path(__file__).parents[2] / source
    if not built.is_dir():
        pytest.skip(f"{source} is not there: make layer")
    copied = shutil.copytree(built, tmp_path / target.strip("/"))
    assert [path.name for path in copied.iterdir()] == ["truemem"]
    assert os.access(copied / "truemem", os.X_OK)
