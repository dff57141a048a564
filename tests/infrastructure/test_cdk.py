"""The CDK construct and the Aspect, from their packages, synthesized by CDK itself; and the page's examples of both."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from tests.attach.pages import block
from tests.attach.test_snippets import or_skip
from tests.infrastructure.cdk import ARN, EXACT, VENDOR, node_app, python_app, started
from tests.scenarios.clients.installed import node
from tests.template.stack import EMPTY_ZIP

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

ARM = ARN.replace("x86_64", "arm64")
ARNS = {"x86Arn": ARN, "armArn": ARM}
OTHERS = ["arn:aws:lambda:eu-west-1:123456789012:layer:other:1"]

Synth = Callable[..., Any]


@pytest.fixture
def synth(tmp_path: Path) -> Synth:
    """Synthesize a scenario of synth.js."""
    folder = or_skip(lambda: node_app(tmp_path))
    program = shutil.copy(Path(__file__).with_name("synth.js"), folder)
    return lambda **scenario: json.loads(started([or_skip(node), program], folder, json.dumps(scenario)))


FLEET: dict[str, tuple[dict[str, Any], list[str], dict[str, Any], str]] = {
    "Plain": ({}, [ARN], EXACT, ""),
    "Arm": ({"architecture": "arm64"}, [ARM], EXACT, ""),
    "InAnotherStack": ({"stack": "Other", "runtime": "nodejs22.x"}, [ARN], EXACT, ""),
    "WithAVendorsWrapper": (
        {"environment": {"AWS_LAMBDA_EXEC_WRAPPER": VENDOR}},
        [ARN],
        {**EXACT, "TRUEMEM_EXEC_WRAPPER": VENDOR},
        "",
    ),
    "CfnFunction": ({"kind": "CfnFunction", "architecture": "arm64"}, [ARM], EXACT, ""),
    "CfnFunctionWithBoth": (
        {"kind": "CfnFunction", "layers": OTHERS, "environment": {"TABLE": "orders"}},
        [OTHERS[0], ARN],
        {"TABLE": "orders", **EXACT},
        "",
    ),
    "CfnFunctionWithAChoice": (
        {"kind": "CfnFunction", "environment": {"Fn::If": ["Small", {}, {}]}},
        [],
        {},
        "warning: truemem is not attached: its layers or variables are known only at deployment",
    ),
    "Image": ({"kind": "image"}, [], {}, "warning: truemem is not attached: a container image"),
    "WithAnOlderOne": ({"layers": [ARN]}, [ARN], {}, "info: truemem: it has the layer already"),
    "AttachedAlone": ({}, [ARN], {"TRUEMEM_AGGREGATE": "60"}, "info: truemem: it has the layer already"),
    "Excluded": ({}, [], {}, ""),
}
"""Function, and then: its layers, its variables, and how the one message about it begins."""


def test_the_aspect_attaches_what_it_can_and_names_the_others(synth: Synth) -> None:
    fleet = synth(
        layer=ARNS,
        functions={name: function for name, (function, *_) in FLEET.items()},
        attach={"AttachedAlone": {"settings": {"aggregate": "60"}}},
        everywhere={"exact": True, "exclude": ["Excluded"]},
    )
    assert fleet["functions"] == {name: [layers, variables] for name, (_, layers, variables, _) in FLEET.items()}
    said = {name: lines[0] for name, lines in fleet["said"].items() if len(lines) == 1}
    assert said.keys() == {name for name, (*_, begins) in FLEET.items() if begins}
    assert [line for name, line in said.items() if FLEET[name][3] not in line] == []


def test_the_zips_of_a_folder_are_published_with_the_stack(synth: Synth, tmp_path: Path) -> None:
    for architecture in ("x86_64", "arm64"):
        (tmp_path / f"truemem-layer-{architecture}.zip").write_bytes(EMPTY_ZIP)
    functions = {"Plain": {}, "Arm": {"architecture": "arm64"}, "InAnotherStack": {"stack": "Other"}}
    made = synth(layer={"layerFolder": str(tmp_path)}, functions=functions, everywhere={}, region="eu-west-1")
    named = {layer["LayerName"]: layer["CompatibleArchitectures"] for layer in made["layers"]}
    assert named == {"truemem-x86_64": ["x86_64"], "truemem-arm64": ["arm64"]}
    ((plain,), _), ((arm,), _), ((imported,), _) = (made["functions"][name] for name in functions)
    assert ("x8664" in plain["Ref"], "arm64" in arm["Ref"], "x8664" in imported["Fn::ImportValue"]) == (True,) * 3


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        ({"functions": {"Image": {"kind": "image"}}, "attach": {"Image": {}}}, "Stack/Image: a container image"),
        (
            {"functions": {"Go": {"runtime": "provided.al2023"}}, "attach": {"Go": {"exact": True}}},
            "Stack/Go: provided.al2023 ignores",
        ),
        ({"functions": {"Far": {}}, "attach": {"Far": {}}, "region": "us-east-1"}, "the function in us-east-1"),
        ({"functions": {}, "layer": {}}, "there is no layer. Give x86Arn and armArn, or layerFolder"),
    ],
)
def test_to_attach_one_function_that_cannot_take_it_is_an_error(
    synth: Synth, scenario: dict[str, Any], reason: str
) -> None:
    with pytest.raises(AssertionError, match=reason):
        synth(**{"layer": ARNS, **scenario})


# --- the page ---------------------------------------------------------------------------------------------------------

IN_TYPESCRIPT = """
import { App, Stack } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
IMPORTS
class MyStack extends Stack {
  constructor(scope: App, id: string) {
    super(scope, id);
    const code = lambda.Code.fromInline('#');
    const properties = { code, handler: 'index.handler', runtime: lambda.Runtime.PYTHON_3_13 };
    const other = lambda.LayerVersion.fromLayerVersionArn(this, 'Other', 'OTHER');
    const myFunction = new lambda.Function(this, 'MyFunction', { ...properties, layers: [other] });
    new lambda.Function(this, 'Another', { ...properties, layers: [other], architecture: lambda.Architecture.ARM_64 });
BODY
  }
}
const app = new App({ outdir: 'cdk.out' });
new MyStack(app, 'MyStack');
app.synth();
"""
IN_PYTHON = """
from aws_cdk import App, Stack
from aws_cdk import aws_lambda as lambda_
IMPORTS
class MyStack(Stack):
    def __init__(self, scope, id):
        super().__init__(scope, id)
        code = lambda_.Code.from_inline("#")
        properties = dict(code=code, handler="index.handler", runtime=lambda_.Runtime.PYTHON_3_13)
        properties["layers"] = [lambda_.LayerVersion.from_layer_version_arn(self, "Other", "OTHER")]
        my_function = lambda_.Function(self, "MyFunction", **properties)
        lambda_.Function(self, "Another", architecture=lambda_.Architecture.ARM_64, **properties)
BODY
app = App(outdir="cdk.out")
MyStack(app, "MyStack")
app.synth()
"""


def program(around: str, name: str) -> str:
    """The page's example of that name, in an application of two functions."""
    imports, _, body = block("../infrastructure/cdk/README.md", name).partition("\n\n")
    return around.replace("OTHER", OTHERS[0]).replace("IMPORTS", imports).replace("BODY", indent(body, " " * 8))


def in_typescript(folder: Path) -> None:
    or_skip(lambda: node_app(folder))
    (folder / "main.ts").write_text(program(IN_TYPESCRIPT, "cdk-typescript"))
    compiler: list[str | Path] = [or_skip(node), "node_modules/typescript/bin/tsc", "--strict", "--skipLibCheck"]
    started([*compiler, "--module", "commonjs", "--target", "es2022", "main.ts"], folder)
    started([or_skip(node), "main.js"], folder)


def in_python(folder: Path) -> None:
    (folder / "main.py").write_text(program(IN_PYTHON, "cdk-python"))
    started([or_skip(python_app), "main.py"], folder)


@pytest.mark.parametrize("synthesized", [in_typescript, in_python])
def test_the_example_attaches_one_function_with_settings(synthesized: Callable[[Path], None], tmp_path: Path) -> None:
    synthesized(tmp_path)
    template = json.loads((tmp_path / "cdk.out" / "MyStack.template.json").read_text())
    functions = [each["Properties"] for each in template["Resources"].values() if "Runtime" in each["Properties"]]
    assert [(each["Layers"], each["Environment"]["Variables"]) for each in functions] == [
        ([OTHERS[0], ARN], {**EXACT, "TRUEMEM_AGGREGATE": "60"}),
        ([OTHERS[0], ARM], EXACT),
    ]
