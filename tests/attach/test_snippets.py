"""The snippets of docs/attach.md: each as near to its own tool as this machine gets."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.application import translated
from layer.__main__ import main as layer_command
from testing.installs import Missing
from tests.attach.pages import block, cfn_lint, instructions
from tests.layer.built import script

PAGE = "attach.md"
ARN = "arn:aws:lambda:eu-west-1:123456789012:layer:truemem-x86_64:1"
WRAPPER = "/opt/truemem/exact"
DIST = str(next(option.default for option in layer_command.params if option.name == "output"))


def or_skip(find: Callable[[], Path]) -> Path:
    """What `find` finds; else the test is skipped with the reason."""
    try:
        return find()
    except Missing as reason:
        pytest.skip(str(reason))


# --- YAML -------------------------------------------------------------------------------------------------------------


def sam() -> dict[str, Any]:
    """The snippet, which is a whole template; its code where `sam deploy` would have put it."""
    template: dict[str, Any] = yaml.safe_load(block(PAGE, "sam"))
    template["Resources"]["MyFunction"]["Properties"]["CodeUri"] = "s3://bucket/key"
    return template


def test_sam_makes_a_function_with_the_layer() -> None:
    function = translated(sam())["Resources"]["MyFunction"]
    assert function["Type"] == "AWS::Lambda::Function"
    assert function["Properties"]["Layers"] == [ARN]
    assert function["Properties"]["Architectures"] == ["x86_64"]
    assert function["Properties"]["Environment"] == {"Variables": {"AWS_LAMBDA_EXEC_WRAPPER": WRAPPER}}


def test_sam_passes_cfn_lint(tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    template.write_text(yaml.safe_dump(sam(), sort_keys=False))
    assert cfn_lint(template, "--regions", "eu-west-1") == ""


# --- files ------------------------------------------------------------------------------------------------------------


def test_the_image_copies_what_layer_files_writes(tmp_path: Path) -> None:
    or_skip_layer()
    program, *arguments = shlex.split(block(PAGE, "image-files"))
    command: list[str | Path] = [Path(sys.executable).with_name(program), *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert instructions(block(PAGE, "image"))[1:] == instructions(done.stdout)
    assert instructions(block(PAGE, "exact-image"))[1] == instructions(done.stdout)[0]
    shutil.copytree(tmp_path / "truemem-layer", tmp_path / "opt")
    for path in ("/opt/extensions/truemem", WRAPPER):
        assert os.access(f"{tmp_path}{path}", os.X_OK)


def or_skip_layer() -> Path:
    """What `make layer` has left for x86_64; else the test is skipped."""
    built = Path(__file__).parents[2] / DIST / "x86_64"
    if not (built / "truemem").is_dir():
        pytest.skip(f"{built} is not there: make layer")
    return built


def test_the_images_entry_point_starts_the_runtime() -> None:
    entry, command = (json.loads(argument) for _, argument in instructions(block(PAGE, "exact-image"))[-2:])
    assert entry[0] == WRAPPER
    started = [str(or_skip_layer() / "truemem" / "exact"), "echo", *entry[2:], *command]
    done = subprocess.run(started, capture_output=True, text=True, check=True)
    assert done.stdout == "-m awslambdaric app.handler\n"


@pytest.mark.parametrize("attached", [True, False])
def test_bootstrap_starts_with_and_without_the_layer(attached: bool, tmp_path: Path) -> None:
    wrapper = tmp_path / "opt" / "exact"
    if attached:
        shutil.copytree(or_skip_layer() / "truemem", wrapper.parent)
    script(tmp_path, 'echo "started as $0"', "my-program")
    bootstrap = tmp_path / "bootstrap"
    bootstrap.write_text(block(PAGE, "bootstrap").replace(WRAPPER, str(wrapper)))
    bootstrap.chmod(0o755)
    done = subprocess.run(["./bootstrap"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "started as ./my-program\n"
    assert ("exact mode is off" in done.stderr) == attached  # no sidecar here: it was started through the wrapper
