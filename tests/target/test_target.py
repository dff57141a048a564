"""A function as its SAM template has it."""

from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import BadInput
from truemem_workbench.runs.here import Run
from truemem_workbench.target.resolve import resolve
from truemem_workbench.target.target import Target

from tests.check.conftest import FUNCTIONS
from tests.local.conftest import executable

TEMPLATE = FUNCTIONS / "template.yaml"
ROOT = Path(__file__).parents[2]


def resolved(folder: Path, text: str) -> Target:
    """The function `It` of a template with this text; its code may be in the folder, or where CODE is."""
    (folder / "template.yaml").write_text(text.replace("CODE", str(FUNCTIONS)))
    return resolve(f"{folder / 'template.yaml'}:It")


def test_the_text_is_taken_over_and_a_stacks_part_named() -> None:
    target = resolve(f"{TEMPLATE}:Inner")
    assert (target.name, target.memory_mib, target.timeout_s) == ("Inner", 320, 20)
    assert target.environment == {"SHARED": "1", "OWN": "true"}
    assert target.function.task_root == (FUNCTIONS / "src").resolve()
    assert target.function.handler == "pkg.inner.handler"
    assert (target.source, target.line) == (FUNCTIONS / "src" / "pkg" / "inner.py", 7)
    notices = target.notices
    for name in ("TABLE", "SECRET", "REGION"):
        assert any(f"only a stack knows {name} of Inner" in notice for notice in notices)
    assert any(notice.startswith("python3.8 is asked for") for notice in notices)
    plain = resolve(f"{TEMPLATE}:Plain")
    assert plain.memory_mib == 128
    assert any("only a stack knows MemorySize" in notice for notice in plain.notices)


def test_a_handler_below_the_code_folder_runs() -> None:
    with Run(resolve(f"{TEMPLATE}:Inner")) as run:
        variables: Any = run.invoke({}).payload
    assert (variables["SHARED"], variables["OWN"]) == ("1", "true")
    assert variables["AWS_EXECUTION_ENV"] == "AWS_Lambda_python3.8"  # the template's
    assert variables["AWS_LAMBDA_FUNCTION_NAME"] == "Inner"
    assert variables["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "320"
    assert "TABLE" not in variables


TEXTS = """
Parameters:
  Stage: {Type: String, Default: test}
  Size: {Type: Number, Default: 7}
  Unset: {Type: String}
Globals: {Function: {Handler: steady.handler, Layers: [!Ref Shared]}}
Resources:
  It:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: CODE
      Layers: ["arn:aws:lambda:eu-west-1:1:layer:other:3", !Sub "arn:${AWS::Region}", !GetAtt A.B]
      Environment:
        Variables:
          WHOLE: !Sub "table-${Stage}"
          TWICE: !Sub "${Stage}-${Size}"
          OWN: !Sub ["${Name}/${Stage}", {Name: !Sub "${Size}x"}]
          LITERAL: !Sub "${!Stage}"
          UNSET: !Sub "${Stage}-${Unset}"
          OWN_UNKNOWN: !Sub ["${Name}", {Name: !GetAtt A.B}]
          REGION: !Sub "${AWS::Region}"
"""


def test_sub_is_done_with_the_defaults_of_parameters(tmp_path: Path) -> None:
    target = resolved(tmp_path, TEXTS)
    assert target.environment == {"WHOLE": "table-test", "TWICE": "test-7", "OWN": "7x/test", "LITERAL": "${Stage}"}
    for unknown in ("UNSET", "OWN_UNKNOWN", "REGION"):
        assert any(f"knows {unknown} " in notice for notice in target.notices), unknown
    (layers,) = (notice for notice in target.notices if notice.startswith("layers"))
    assert "are not here: Shared, arn:aws:lambda:eu-west-1:1:layer:other:3, arn:${AWS::Region}, A.B." in layers


PROGRAMS = """
Resources:
  It:
    Type: AWS::Serverless::Function
    Properties:
      Handler: steady.handler
      CodeUri: CODE
      MemorySize: 16384
      Timeout: 5400
      CapacityProviderConfig: {LambdaManagedInstancesCapacityProviderConfig: {CapacityProviderArn: ARN}}
      Environment: {Variables: {AWS_LAMBDA_EXEC_WRAPPER: WRAPPER, TRUEMEM_EXEC_WRAPPER: /opt/vendor}}
"""


@pytest.mark.parametrize(
    ("wrapper", "kept", "is_named"),
    [
        ("/opt/truemem/exact", False, False),  # the default here
        ("/opt/nowhere", False, True),
        ("/usr/bin/env", True, False),
    ],
)
def test_a_wrapper_of_a_layer_is_left_out(tmp_path: Path, wrapper: str, kept: bool, is_named: bool) -> None:
    target = resolved(tmp_path, PROGRAMS.replace(": WRAPPER", f": {wrapper}"))
    assert target.environment == ({"AWS_LAMBDA_EXEC_WRAPPER": wrapper} if kept else {})
    notices = [each for each in target.notices if each.startswith("AWS_LAMBDA_EXEC_WRAPPER of It in ")]
    assert [each.endswith(f"is not here: {wrapper}") for each in notices] == [True] * is_named
    assert any(each.endswith("is not here: /opt/vendor") for each in target.notices)


@pytest.mark.parametrize(
    ("size", "mib", "is_named"), [("2048", 2048, False), ("'1024'", 1024, False), ("!Ref Unset", 512, True)]
)
def test_the_size_of_tmp_is_the_templates(tmp_path: Path, size: str, mib: int, is_named: bool) -> None:
    target = resolved(tmp_path, PROGRAMS.replace("Timeout:", f"EphemeralStorage: {{Size: {size}}}\n      Timeout:"))
    assert target.tmp_mib == mib
    assert any("only a stack knows EphemeralStorage" in notice for notice in target.notices) == is_named


@pytest.mark.parametrize(
    ("provider", "at_once", "gib"),
    [
        ("{Arn: ARN, PerExecutionEnvironmentMaxConcurrency: 8}", 8, 4),
        ("{LambdaManagedInstancesCapacityProviderConfig: {PerExecutionEnvironmentMaxConcurrency: 8}}", 8, 4),
        ("{Arn: ARN, ExecutionEnvironmentMemoryGiBPerVCpu: 2.0}", 16 * 8, 2),  # Python: 16 for each vCPU
        ("{Arn: ARN, PerExecutionEnvironmentMaxConcurrency: !Ref Unset}", 16 * 4, 4),
    ],
)
def test_a_managed_function_runs_as_its_template_says(tmp_path: Path, provider: str, at_once: int, gib: float) -> None:
    its_own = "{LambdaManagedInstancesCapacityProviderConfig: {CapacityProviderArn: ARN}}"
    made = PROGRAMS.replace(its_own, provider).replace("MemorySize:", "Runtime: python3.13\n      MemorySize:")
    target = resolved(tmp_path, made)
    assert (target.managed_instances, target.gib_per_vcpu) == (at_once, gib)
    assert (target.memory_mib, target.timeout_s) == (16_384, 5_400)
    is_default = any(f"{at_once}, Lambda's default" in each for each in target.notices)
    assert is_default == ("Concurrency: 8" not in provider)


def test_a_managed_function_without_a_size_has_the_least(tmp_path: Path) -> None:
    assert resolved(tmp_path, PROGRAMS.replace("      MemorySize: 16384\n", "")).memory_mib == 2_048


def test_one_worker_that_stands_for_many_says_so(tmp_path: Path) -> None:
    one = resolved(tmp_path, PROGRAMS).with_one_worker()
    assert (one.managed_instances, one.memory_mib, one.timeout_s) == (None, 10_240, 1_800)
    assert any("stands for" in each and f"truemem check {one.spec}" in each for each in one.notices)
    assert one.with_one_worker() is one


def test_a_web_function_is_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"It in .* is a Web Function, in which Lambda starts no extension"):
        resolved(tmp_path, "Resources: {It: {Type: AWS::Serverless::WebFunction}}")


PROPERTIES = [
    ("InlineCode: x", r"It in .*template\.yaml has its code in the template \(InlineCode\)"),
    ("CodeUri: nowhere", r"CodeUri of It in .*template\.yaml is no folder of this machine: nowhere\. Try sam build"),
    ("CodeUri: !Ref Bucket", r"CodeUri of It in .* is no folder of this machine: only a stack knows it"),
    ("MemorySize: 64", r"MemorySize of It in .*template\.yaml is 64: Lambda has 128 to 10240\. Fix the template"),
    ("MemorySize: 16384", "is 16384: Lambda has 128 to 10240, and with CapacityProviderConfig up to 32768"),
    ("MemorySize: 32769, CapacityProviderConfig: {}", r"is 32769: Lambda has 2048 to 32768\. Fix the template"),
    ("MemorySize: 1024, CapacityProviderConfig: {}", r"is 1024: Lambda has 2048 to 32768\. Fix the template"),
    (
        "CapacityProviderConfig: {PerExecutionEnvironmentMaxConcurrency: 1601}",
        r"PerExecutionEnvironmentMaxConcurrency of It in .* is 1601: Lambda has 1 to 1600\. Fix the template",
    ),
    (
        "CapacityProviderConfig: {ExecutionEnvironmentMemoryGiBPerVCpu: 16}",
        r"ExecutionEnvironmentMemoryGiBPerVCpu of It in .* is 16: Lambda has 2 to 8\. Fix the template",
    ),
    ("EphemeralStorage: {Size: 256}", r"EphemeralStorage of It in .* is 256: Lambda has 512 to 10240"),
    ("MemorySize: large", r"MemorySize of It in .* is 'large', not a whole number"),
    ("Timeout: 1801", r"Timeout of It in .* is 1801: Lambda has 1 to 1800, and with CapacityProviderConfig up to 5400"),
    ("Timeout: 5401, CapacityProviderConfig: {}", r"is 5401: Lambda has 1 to 5400\. Fix the template"),
    ("Handler: other.handler", r"no .*other\.py for Handler other\.handler of It in .*, which has no CodeUri"),
    ("Runtime: provided.al2023", r"no .*bootstrap of It in .*, which has no CodeUri"),
    (
        "Runtime: java25",
        r"CodeUri of It in .* is no jar, and no folder that sam build has made: .*\. Try sam build, and",
    ),
    ("Runtime: dotnet10", r"such as `exec dotnet ASSEMBLY\.dll`"),
    *((f"Runtime: {name}", rf"runs on {name}: .* Write .*/bootstrap, such as") for name in ("custom", "cobol85")),
]


@pytest.mark.parametrize("runtime", ["java25", "ruby4.0", "dotnet10", "custom", "provided.al2023", "cobol85"])
def test_a_bootstrap_beside_the_code_starts_any_runtime(tmp_path: Path, runtime: str) -> None:
    program = executable(tmp_path / "bootstrap", "#!/bin/sh\n")
    properties = f"{{Runtime: {runtime}, MemorySize: 256}}"
    target = resolved(tmp_path, f"Resources: {{It: {{Type: AWS::Serverless::Function, Properties: {properties}}}}}")
    assert (target.function.command, target.memory_mib) == ((str(program.resolve()),), 256)
    assert target.is_explicable is False


@pytest.mark.parametrize(("given", "said"), PROPERTIES)
def test_a_wrong_property_is_refused_with_its_name(tmp_path: Path, given: str, said: str) -> None:
    (tmp_path / "steady.py").write_text("def handler(event, context): ...")
    properties = given if given.startswith("Handler") else f"Handler: steady.handler, {given}"
    with pytest.raises(BadInput, match=said):
        resolved(tmp_path, f"Resources: {{It: {{Type: AWS::Serverless::Function, Properties: {{{properties}}}}}}}")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (f"{TEMPLATE}:Node", "runs on ruby3.3"),
        (f"{TEMPLATE}:Image", "is an image"),
        (f"{TEMPLATE}:Uploaded", "is no folder of this machine"),
        (
            f"{TEMPLATE}:Table",
            r"no AWS::Serverless::Function 'Table' in .* \(found: Inner, Plain, Node, Image, Uploaded\). Try",
        ),
        (f"{TEMPLATE}", r"names no function\. Try"),
        (f"{ROOT / 'template.yaml'}:Nothing", r"found: .*Incident"),  # our own can be read
    ],
    ids=["another runtime", "an image", "code on S3", "no such function", "a template alone", "our own template"],
)
def test_what_cannot_be_run_here_is_refused_in_one_line(spec: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as refusal:
        resolve(spec)
    assert "\n" not in str(refusal.value)
    target = resolve(f"{FUNCTIONS / 'leaky.py'}:handler")
    assert (target.line, target.name) == (10, "functions")
