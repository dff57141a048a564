"""Settings: valid ones count, invalid ones are one line and the default."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.config import NAMES, Config

SETTINGS = [name for name in vars(Config({})) if name != "problems"]


def test_defaults() -> None:
    config = Config({})
    assert config.problems == []
    assert (config.enabled, config.namespace, config.cpu_budget) == (True, "truemem", 0.01)
    assert (config.dimensions, config.properties, config.log_level, config.level) == ({}, {}, "info", "INFO")
    assert (config.memory_mib, config.cpu_share) == (0, 1.0)


def test_everything_set() -> None:
    config = Config(
        {
            b"TRUEMEM_ENABLED": b"off",
            b"TRUEMEM_NAMESPACE": b"My/Memory",
            b"TRUEMEM_DIMENSIONS": b"Stage=prod, Team=ml",
            b"TRUEMEM_PROPERTIES": b"modelVersion=2026-11",
            b"TRUEMEM_CPU_BUDGET": b"0.5%",
            b"TRUEMEM_LOG_LEVEL": b"debug",
            b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"1769",
            b"AWS_LAMBDA_LOG_LEVEL": b"warn",
        }
    )
    assert config.problems == []
    assert (config.enabled, config.namespace, config.cpu_budget) == (False, "My/Memory", 0.005)
    assert config.dimensions == {"Stage": "prod", "Team": "ml"}
    assert config.properties == {"modelVersion": "2026-11"}
    assert (config.cpu_share, config.level) == (1.0, "WARN")


def test_what_the_wrapper_reads_is_no_typing_error() -> None:
    assert Config({b"TRUEMEM_EXEC_WRAPPER": b"/opt/vendor/wrapper"}).problems == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENABLED", "maybe"),
        ("NAMESPACE", "AWS/Lambda"),
        ("NAMESPACE", "ü"),
        ("NAMESPACE", "x" * 256),
        ("DIMENSIONS", "Stage"),
        ("DIMENSIONS", "Stage=ü"),
        ("DIMENSIONS", ":x=y"),
        ("DIMENSIONS", "FunctionName=x"),
        ("DIMENSIONS", "Stage=" + "x" * 1025),
        ("DIMENSIONS", ",".join(f"d{n}=x" for n in range(30))),
        ("PROPERTIES", "peakLower=3"),
        ("PROPERTIES", "_aws=3"),
        ("PROPERTIES", "=3"),
        ("CPU_BUDGET", "0"),
        ("CPU_BUDGET", "nan"),
        ("CPU_BUDGET", "lots"),
        ("CPU_BUDGET", "51%"),
        ("CPU_BUDGET", "-1"),
        ("CPU_BUDGET", "inf"),
        ("LOG_LEVEL", "loud"),
        ("DIMENSIONS", "Stage=a\nb"),
        ("DIMENSIONS", "St\x01age=a"),
        ("OOM_SCORE_ADJ", "-1"),
        ("OOM_SCORE_ADJ", "1001"),
        ("OOM_SCORE_ADJ", "9" * 5000),
        ("JOURNAL", "maybe"),
        ("AGGREGATE", "301"),
        ("AGGREGATE", "-1"),
    ],
)
def test_an_invalid_value_is_one_line_that_names_it_and_the_default(name: str, value: str) -> None:
    config = Config({f"TRUEMEM_{name}".encode(): value.encode()})
    (problem,) = config.problems
    assert problem.startswith(f"TRUEMEM_{name}=")
    assert "using the default" in problem
    assert [getattr(config, slot) for slot in SETTINGS] == [getattr(Config({}), slot) for slot in SETTINGS]


def test_a_misspelt_setting_is_named_with_those_there_are() -> None:
    (problem,) = Config({b"TRUEMEM_NAMESPAC": b"x"}).problems
    assert "TRUEMEM_NAMESPAC is not a setting" in problem
    assert "NAMESPACE" in problem


@given(
    st.dictionaries(
        st.sampled_from(NAMES),
        st.binary() | st.sampled_from([b"nan", b"-inf", b"1e999", b"9" * 5000, b"\n", b"\xff", b"=", b"a=\n", b"-0"]),
    )
)
def test_no_value_is_a_crash(values: dict[str, bytes]) -> None:
    config = Config({f"TRUEMEM_{name}".encode(): value for name, value in values.items()})
    assert len(config.problems) <= len(values)
    assert 0.0001 <= config.cpu_budget <= 0.5
    assert 0 <= config.oom_score_adj <= 1000
    assert 0 <= config.aggregate_s <= 300
