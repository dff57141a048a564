"""The Terraform module, as the page uses it: checked by Terraform, and applied to moto's server."""

import json
import os
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from mypy_boto3_lambda import LambdaClient

from tests.attach import tools
from tests.attach.pages import block
from tests.attach.test_shell import aws, aws_endpoint, lambdas
from tests.attach.test_snippets import WRAPPER, or_skip
from tests.infrastructure.cdk import ARN, EXACT, ROOT, VENDOR
from tests.template.stack import EMPTY_ZIP

__all__ = ["aws", "aws_endpoint", "lambdas"]  # fixtures

MODULE = ROOT / "infrastructure" / "terraform"

Terraform = Callable[..., str]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # A configuration of the machine's user may send it elsewhere.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    command: list[str | Path] = [or_skip(tools.terraform), *arguments]
    variables |= {"CHECKPOINT_DISABLE": "1", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture
def terraform(tmp_path: Path) -> Terraform:
    """Runs a command of Terraform for a configuration. Fails the test if it fails."""
    for name in ("function", "truemem-layer-x86_64", "truemem-layer-arm64"):
        (tmp_path / f"{name}.zip").write_bytes(EMPTY_ZIP)

    def run_it(configuration: str, *arguments: str) -> str:
        (tmp_path / "main.tf").write_text(configuration)
        begun = run(tmp_path, "init", "-input=false", f"-plugin-dir={or_skip(tools.aws_provider)}")
        assert begun.returncode == 0, begun.stderr
        done = run(tmp_path, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run_it


def example() -> str:
    text = block("../infrastructure/terraform/README.md", "terraform")
    return text.replace('"CHECKOUT/infrastructure/terraform"', f'"{MODULE}"').replace("CHECKOUT/dist", ".")


def using(**inputs: str) -> str:
    """A configuration of nothing but modules, with these inputs; the output `environments` is by their names."""
    modules = [f'module "{name}" {{\n  source = "{MODULE}"\n{given}\n}}\n' for name, given in inputs.items()]
    environments = "\n".join(f"{name} = module.{name}.environment" for name in inputs)
    return "\n".join([*modules, f'output "environments" {{\n  value = {{\n{environments}\n}}\n}}\n'])


def test_module_and_example_are_formatted(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text(block("../infrastructure/terraform/README.md", "terraform"))
    for folder in (MODULE, tmp_path):
        checked = run(folder, "fmt", "-check", "-diff")
        assert (checked.returncode, checked.stdout) == (0, "")


INPUTS: dict[str, tuple[str, dict[str, str]]] = {
    "default": ("", {}),
    "exact": ("exact = true", EXACT),
    "chained": (f'exact = true\nexec_wrapper = "{VENDOR}"', {**EXACT, "TRUEMEM_EXEC_WRAPPER": VENDOR}),
    "settings": (
        'settings = { aggregate = 60, dimensions = "Stage=prod" }',
        {"TRUEMEM_AGGREGATE": "60", "TRUEMEM_DIMENSIONS": "Stage=prod"},
    ),
}


@pytest.mark.nightly
@pytest.mark.usefixtures("lambdas")
def test_the_inputs_become_variables(terraform: Terraform) -> None:
    arns = f'layer_arns = {{ x86_64 = "{ARN}" }}'
    configuration = using(**{name: f"{arns}\n{given}" for name, (given, _) in INPUTS.items()})
    terraform(configuration, "apply", "-auto-approve", "-input=false")
    made = json.loads(terraform(configuration, "output", "-json", "environments"))
    assert made == {name: environment for name, (_, environment) in INPUTS.items()}


@pytest.mark.nightly
def test_applied_the_function_has_layer_and_variables(terraform: Terraform, lambdas: LambdaClient) -> None:
    trust = '{"Version": "2012-10-17", "Statement": []}'
    boto3.client("iam").create_role(RoleName="my-function", AssumeRolePolicyDocument=trust)
    terraform(example(), "apply", "-auto-approve", "-input=false")
    function: Any = lambdas.get_function_configuration(FunctionName="my-function")
    assert [layer["Arn"] for layer in function["Layers"]] == [ARN]
    wanted = {"TABLE": "orders", "TRUEMEM_AGGREGATE": "60", "AWS_LAMBDA_EXEC_WRAPPER": WRAPPER}
    assert function["Environment"]["Variables"] == wanted
    assert "No changes" in terraform(example(), "plan", "-input=false")
    terraform(example(), "destroy", "-auto-approve", "-input=false")
    assert versions(lambdas) == [1]


@pytest.mark.nightly
@pytest.mark.parametrize(("given", "kept"), [("", [1, 2]), ("skip_destroy = false", [2])])
def test_an_old_version_stays_unless_it_is_asked_to_go(
    terraform: Terraform, lambdas: LambdaClient, tmp_path: Path, given: str, kept: list[int]
) -> None:
    configuration = using(one=f'layer_folder = "."\n{given}')
    terraform(configuration, "apply", "-auto-approve", "-input=false")
    with zipfile.ZipFile(tmp_path / "truemem-layer-x86_64.zip", "a") as layer:
        layer.writestr("extensions/truemem", "another")
    terraform(configuration, "apply", "-auto-approve", "-input=false")
    assert versions(lambdas) == kept


def versions(lambdas: LambdaClient) -> list[int]:
    """Versions of the layer for x86_64 that are there."""
    found = lambdas.list_layer_versions(LayerName="truemem-x86_64")["LayerVersions"]
    return sorted(each["Version"] for each in found)
