"""Settings: valid ones count, invalid ones are one line and the default."""

import pytest
from truemem.config import Config, parse_switch

SETTINGS = [name for name in vars(Config({})) if name != "problems"]


def test_defaults() -> None:
    config = Config({})
    assert config.problems == []
    assert (config.namespace, config.cpu_budget) == ("truemem", 0.01)
    assert (config.dimensions, config.properties, config.log_level, config.level) == ({}, {}, "info", "INFO")
    assert (config.memory_mib, config.cpu_share) == (0, 1.0)


def test_everything_set() -> None:
    environ = {b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"1769", b"AWS_LAMBDA_LOG_LEVEL": b"warn"}
    environ |= {b"TRUEMEM_ENABLED": b"off", b"TRUEMEM_NAMESPACE": b"My/Memory", b"TRUEMEM_CPU_BUDGET": b"0.5%"}
    environ |= {b"TRUEMEM_DIMENSIONS": b"Stage=prod, Team=ml", b"TRUEMEM_PROPERTIES": b"modelVersion=2026-11"}
    environ |= {b"TRUEMEM_LOG_LEVEL": b"Warn", b"TRUEMEM_RESOURCES": b"OFF"}
    environ |= {b"TRUEMEM_EXEC_WRAPPER": b"/opt/vendor/wrapper"}  # the wrapper's own
    config = Config(environ)
    assert config.problems == []
    assert (config.namespace, config.cpu_budget) == ("My/Memory", 0.005)
    assert config.dimensions == {"Stage": "prod", "Team": "ml"}
    assert config.properties == {"modelVersion": "2026-11"}
    assert (config.cpu_share, config.level, config.log_level, config.resources) == (1.0, "WARN", "warn", "off")


INVALID = {
    "ENABLED": ["maybe"],
    "NAMESPACE": ["AWS/Lambda", "ü", "x" * 256],
    "DIMENSIONS": [
        *("Stage", "Stage=ü", ":x=y", "FunctionName=x", "Stage=a\nb", "St\x01age=a", "Stage=" + "x" * 1025),
        ",".join(f"d{n}=x" for n in range(30)),
    ],
    "PROPERTIES": ["peakLower=3", "_aws=3", "=3"],
    "CPU_BUDGET": ["0", "nan", "lots", "51%", "-1", "inf"],
    "LOG_LEVEL": ["loud", "debug"],
    "PORT": ["80", "65536", "http"],
    "OOM_SCORE_ADJ": ["-1", "1001", "9" * 5000],
    "JOURNAL": ["maybe"],
    "RESOURCES": ["yes"],
    "LINES": ["10", "java", "10%,", "on,nodejs", "101%", "-1%", "nan%", "%", "maybe"],
    "OUTPUT": ["emf;otlp"],
    "AGGREGATE": ["301", "-1"],
}


def is_default(config: Config) -> bool:
    return all(getattr(config, slot) == getattr(Config({}), slot) for slot in SETTINGS)


def test_lines_are_wanted_in_a_share_of_the_environments() -> None:
    """A JVM is asked only where that is said."""
    values = {"off": 0.0, "On": 1.0, "10%": 0.1, "0.5 %": 0.005, "100%": 1.0, "0%": 0.0, "10%, Java": 0.1}
    for value, share in values.items():
        config = Config({b"TRUEMEM_LINES": value.encode()})
        assert config.problems == []
        assert config.lines_share == pytest.approx(share)
        assert config.lines_java is ("Java" in value)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in INVALID for value in INVALID[name]])
def test_an_invalid_value_is_one_line_and_the_default(name: str, value: str) -> None:
    config = Config({f"TRUEMEM_{name}".encode(): value.encode()})
    (problem,) = config.problems
    assert problem.startswith(f"TRUEMEM_{name} is not ")
    assert "using the default" in problem
    assert is_default(config)


def test_a_misspelt_setting_is_named_with_those_there_are() -> None:
    (problem,) = Config({b"TRUEMEM_NAMESPAC": b"x"}).problems
    assert "TRUEMEM_NAMESPAC is not a setting" in problem
    assert "NAMESPACE" in problem


@pytest.mark.parametrize("name", [b"TRUEMEM_\xff\n", b"TRUEMEM_", b"TRUEMEM_a=b", b"TRUEMEM_" + b"x" * 33])
def test_what_is_no_name_of_a_setting_is_not_shown(name: bytes) -> None:
    (problem,) = Config({name: b"x"}).problems
    assert problem.startswith("a variable that begins with TRUEMEM_ is not a setting; ")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("PROPERTIES", "a=b,,c", "part 3 is not name=value"),
        ("DIMENSIONS", "a=b,c=ü", "part 2 must be printable ASCII and not begin with a colon"),
        ("DIMENSIONS", "FunctionName=x", "FunctionName is a member of every line already"),
        ("NAMESPACE", "AWS/Lambda", "AWS/ is reserved"),
    ],
)
def test_an_invalid_value_is_told_by_its_place(name: str, value: str, why: str) -> None:
    (problem,) = Config({f"TRUEMEM_{name}".encode(): value.encode()}).problems
    assert problem.endswith(f" ({why}); using the default")


def test_a_word_for_on_or_off() -> None:
    words = ("true", " On ", "1", "YES", "OFF", "0")
    assert [parse_switch(word) for word in words] == [True, True, True, True, False, False]
    with pytest.raises(ValueError):
        parse_switch("")
