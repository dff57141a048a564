"""What a function is named by, and what is said when it cannot be found."""

from __future__ import annotations

from pathlib import Path

import pytest
from truemem_workbench.local import BadInput, Function, Settings
from truemem_workbench.local.configuration.variables import Place, extension_variables, function_variables

from tests.local.conftest import HANDLER, HERE, RECORDER

SOURCE = """
import os
from somewhere import imported
LIMIT = 3
_private = 1
def main(event, context): ...
async def late(event, context): ...
made = lambda event, context: 1
a, (b, *c) = 1, (2, 3)
annotated: object = None
if os.name == "posix":
    def conditional(event, context): ...
try:
    def tried(event, context): ...
except ImportError:
    def excepted(event, context): ...
class Handler:
    def method(self): ...
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "code.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(
    "name", ["main", "late", "made", "imported", "b", "c", "annotated", "conditional", "tried", "excepted", "Handler"]
)
def test_any_name_of_the_module_may_be_a_handler(source: Path, name: str) -> None:
    function = Function.from_handler(f"{source}:{name}")
    assert function.handler == f"code.{name}"
    assert function.command[1:] == ("-m", "awslambdaric", f"code.{name}")
    assert function.task_root == source.parent


@pytest.mark.parametrize(
    "text",
    [
        "raise SystemExit\ndef handler(event, context): ...\n",
        "from somewhere import *",
        "globals()['handler'] = print",
    ],
)
def test_code_is_not_run_and_names_that_cannot_be_known_are_believed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "code.py"
    path.write_text(text)
    assert Function.from_spec(f"{path}:handler").handler == "code.handler"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "code.py:handler",
            "def main(e, c): ...\ndef lambda_handler(e, c): ...",
            r"no function `handler` in .*code\.py \(found: main, lambda_handler\)\. Try .*code\.py:lambda_handler",
        ),
        ("code.py:mian", "def main(e, c): ...\ndef other(e, c): ...", r"Try .*code\.py:main"),
        ("code.py:handler", "LIMIT = 3", r"\(found: none\)\. Try .*code\.py:handler"),
        ("code.py", "def main(e, c): ...", r"code\.py names no handler \(found: main\)\. Try .*code\.py:main"),
        ("code.py:handler", "def main(:", r"code\.py line 1: .*\. Python cannot parse it: fix that first"),
        ("other.py:handler", "", r"no file .*other\.py\. Try PATH/app\.py:handler"),
        ("other", "", r"no file .*other\. Try PATH/app\.py:handler, or the path of a bootstrap executable"),
        ("code.txt:handler", "", r"code\.txt cannot be imported as a Python module\. Try a name like app\.py"),
        ("code.sh", "#!/bin/sh", r"code\.sh is not executable\. Try chmod \+x .*code\.sh"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(tmp_path: Path, name: str, text: str, says: str) -> None:
    path = tmp_path / name.partition(":")[0]
    if not name.startswith("other"):
        path.write_text(text)
    with pytest.raises(BadInput, match=says) as error:
        Function.from_spec(str(tmp_path / name))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"memory_mib": 127}, "memory of 127 MiB: Lambda has 128 to 10240. Try --memory 512"),
        ({"memory_mib": 10241}, "memory of 10241 MiB: Lambda has 128 to 10240, and on Managed Instances up to 32768"),
        ({"memory_mib": 32769}, "memory of 32769 MiB: Lambda has 128 to 10240. Try"),
        ({"memory_mib": 32769, "managed_instances": 2}, "memory of 32769 MiB: Managed Instances have 128 to 32768"),
        ({"memory_mib": 127, "managed_instances": 2}, "memory of 127 MiB: Managed Instances have 128 to 32768"),
        ({"timeout_s": 0}, "timeout of 0 s: Lambda has up to 900. Try --timeout 30"),
        ({"timeout_s": 901}, "timeout of 901 s"),
        ({"port": 65536}, "port 65536"),
        ({"release": "extension:-1"}, "release 'extension:-1'"),
        ({"telemetry": 418}, "telemetry 418"),
        ({"name": "a b"}, "function name 'a b'"),
        ({"environment": {"1": ""}}, "environment variable '1'"),
        ({"environment": {"A": "x" * 4096}}, "environment variables of 4097 bytes"),
        ({"extensions": [Path("nowhere")]}, "no extension nowhere"),
        ({"extensions": [HERE / "conftest.py"]}, "is not executable. Try chmod"),
        ({"extensions": [RECORDER, HERE / "elsewhere" / "recorder.py"]}, "two extensions named recorder.py"),
        ({"managed_instances": 0}, "Try --managed-instances 4"),
        ({"managed_instances": 1, "initialization": "snap-start"}, "snap-start on Managed Instances"),
    ],
)
def test_settings_that_lambda_would_refuse(settings: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput) as error:
        Settings(**settings)  # type: ignore[arg-type]
    assert says in str(error.value)


WITHHELD = {
    "AWS_EXECUTION_ENV",
    "AWS_LAMBDA_LOG_GROUP_NAME",
    "AWS_LAMBDA_LOG_STREAM_NAME",
    "LAMBDA_RUNTIME_DIR",
    "LAMBDA_TASK_ROOT",
    "_HANDLER",
}


def test_what_extensions_do_not_get() -> None:
    function = Function.from_handler(HANDLER)
    settings = Settings(environment={"MINE": "yes"})
    place = Place(runtime_api="127.0.0.1:9001", log_stream="stream", path="/bin", tmp="/tmp")
    everything = function_variables(function, settings, place)
    given = extension_variables(settings, place)

    assert everything.keys() - given.keys() == WITHHELD
    assert {name: everything[name] for name in given} == given
    assert given["MINE"] == "yes"
    assert given["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "512"
