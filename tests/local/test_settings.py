"""What may be set, and what follows from it: variables, limits, and who gets an invocation first."""

import statistics
from pathlib import Path
from random import Random
from typing import Any

import pytest
from truemem_workbench.local import BadInput, Function, Settings
from truemem_workbench.local.configuration.settings import (
    EXTENSION_LEAD_US,
    Lead,
    Place,
    extension_variables,
    function_variables,
    release_lead,
)

from tests.local.conftest import HANDLER, HERE, RECORDER

DRAWS = 20_000


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"memory_mib": 127}, "memory of 127 MiB: Lambda has 128 to 10240. Try --memory 512"),
        ({"memory_mib": 10241}, "memory of 10241 MiB: Lambda has 128 to 10240, and on Managed Instances up to 32768"),
        ({"memory_mib": 32769}, "memory of 32769 MiB: Lambda has 128 to 10240. Try"),
        ({"memory_mib": 32769, "managed_instances": 2}, "memory of 32769 MiB: Managed Instances have 128 to 32768"),
        ({"memory_mib": 127, "managed_instances": 2}, "memory of 127 MiB: Managed Instances have 128 to 32768"),
        ({"timeout_s": 0}, "timeout of 0 s: Lambda has more than 0, up to 1800"),
        ({"timeout_s": 1801}, "up to 1800, on Managed Instances up to 5400. Try --timeout 30"),
        ({"timeout_s": 5401, "managed_instances": 2}, "timeout of 5401 s: Lambda has more"),
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


@pytest.mark.parametrize(
    ("settings", "vcpus"),
    [
        ({}, None),
        ({"cpu": "off"}, None),
        ({"cpu": "size", "memory_mib": 1769}, 1),
        ({"cpu": "size", "memory_mib": 10_240}, 10_240 / 1769),
        ({"cpu": "0.5"}, 0.5),
        ({"cpu": 2}, 2),
        ({"cpu": "size", "managed_instances": 2}, None),
        ({"cpu": "1", "managed_instances": 2}, 1),
    ],
)
def test_how_many_vcpus(settings: dict[str, Any], vcpus: float | None) -> None:
    assert Settings(**settings).vcpus == vcpus


@pytest.mark.parametrize("cpu", ["fast", "", "0", "0.04", "6.1", "nan", -1])
def test_another_share_is_refused(cpu: str | float) -> None:
    with pytest.raises(BadInput, match=r"^cpu .*: it is size, off, or 0\.05 to 6 vCPUs\. Try --cpu size$"):
        Settings(cpu=cpu)


@pytest.mark.parametrize(
    ("settings", "limit_s"),
    [
        ({}, 10),
        ({"initialization": "provisioned-concurrency"}, 130),
        ({"initialization": "provisioned-concurrency", "timeout_s": 900}, 900),
        ({"initialization": "snap-start"}, 130),
        ({"managed_instances": 2}, 130),
        ({"managed_instances": 2, "timeout_s": 5400}, 5400),
        ({"initialization": "snap-start", "init_timeout_s": 1}, 1),
    ],
)
def test_the_limit_of_init(settings: dict[str, Any], limit_s: float) -> None:
    assert Settings(**settings).init_limit_s == limit_s


# --- the order of release ---------------------------------------------------------------------------------------------


def test_aws_is_mostly_the_runtime_by_measured_leads() -> None:
    chance = Random(14)
    drawn = [release_lead("aws", chance) for _ in range(DRAWS)]
    runtime = [each.us for each in drawn if each.runtime_first]
    extension = [each.us for each in drawn if not each.runtime_first]
    assert len(runtime) / DRAWS == pytest.approx(0.95, abs=0.01)
    percentiles = statistics.quantiles(runtime, n=100)
    assert [percentiles[at - 1] for at in (25, 50, 90, 99)] == pytest.approx([40, 80, 200, 550], rel=0.1)
    assert 0 <= min(extension) <= max(extension) <= EXTENSION_LEAD_US


def test_together_is_either_first_and_nothing_waits() -> None:
    chance = Random(14)
    drawn = [release_lead("together", chance) for _ in range(1000)]
    assert {each.us for each in drawn} == {0}
    assert sum(each.runtime_first for each in drawn) == pytest.approx(500, abs=60)


def test_a_chosen_lead_is_the_same_each_time() -> None:
    for order, expected in (("runtime:0", Lead(True, 0)), ("extension:1000000", Lead(False, 1_000_000))):
        assert {release_lead(order, Random(seed)) for seed in range(20)} == {expected}


@pytest.mark.parametrize("order", ["", "AWS", "runtime", "runtime:", "runtime:-1", "runtime:1.5", "extension:1000001"])
def test_an_order_that_there_is_not(order: str) -> None:
    with pytest.raises(BadInput, match=r"it is aws, together, runtime:US or extension:US.*Try --release aws"):
        release_lead(order, Random())
