"""Environment variables in, settings or one clear line out."""

import re
from unittest.mock import Mock

import pytest
from network import Shape
from settings import BadSetting, Settings, read_settings

from tests.sample.conftest import SAMPLE


def test_each_variable_is_a_setting() -> None:
    variables = {
        "LOAD_FROM": "path",
        "CACHE_SIZE": "8",
        "POP_BEFORE_LOAD": "true",
        "MMAP_THRESHOLD": "32768",
        "MODEL_BUCKET": "my-models.eu",
        "MODEL_LAYERS": "60",
    }
    settings = Settings(
        load_from="path",
        cache_size=8,
        pop_before_load=True,
        mmap_threshold=32768,
        model_bucket="my-models.eu",
        shape=Shape(layers=60),
    )
    assert read_settings(variables) == settings


def test_an_empty_variable_means_the_default() -> None:
    assert read_settings({"CACHE_SIZE": "", "MMAP_THRESHOLD": " ", "LOAD_FROM": ""}) == Settings()


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("LOAD_FROM", "s3", "set it to bytes or path"),
        ("CACHE_SIZE", "sixteen", "0 to 40"),
        ("POP_BEFORE_LOAD", "yes", "true or false"),
        ("MMAP_THRESHOLD", "32KiB", "try 32768"),
        ("MODEL_DIR", "models", "an absolute path"),
        ("MODEL_BUCKET", "s3://models", "without s3://"),
        ("MODEL_PREFIX", "models", "one at the end"),
        ("MODEL_WIDTH", "wide", "16 to 4096"),
    ],
)
def test_a_bad_value_names_variable_value_and_what_to_do(name: str, value: str, fix: str) -> None:
    with pytest.raises(BadSetting) as caught:
        read_settings({name: value})

    message = str(caught.value)
    assert message.startswith(f"{name}={value!r} is not ")
    assert fix in message
    assert "\n" not in message


def test_the_cache_may_hold_as_many_as_there_are_models() -> None:
    assert read_settings({"MODEL_COUNT": "100", "CACHE_SIZE": "100"}).cache_size == 100
    with pytest.raises(BadSetting, match="CACHE_SIZE='4' is not a number from 0 to 3"):
        read_settings({"MODEL_COUNT": "3", "CACHE_SIZE": "4"})


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (
            {"MODEL_LAYERS": "256", "MODEL_WIDTH": "1025"},
            "MODEL_LAYERS=256 with MODEL_WIDTH=1025 is 1027 MiB a model, and 1024 is the most: lower one of them",
        ),
        (
            {"MODEL_STORE_MIB": "6"},
            "MODEL_STORE_MIB=6 does not hold one model of 6.0 MiB (MODEL_LAYERS=24, MODEL_WIDTH=256):"
            " raise it, and the function's ephemeral storage with it",
        ),
    ],
)
def test_what_is_wrong_only_together_is_said_together(variables: dict[str, str], words: str) -> None:
    with pytest.raises(BadSetting) as caught:
        read_settings(variables)
    assert str(caught.value) == words


def test_every_variable_is_on_the_page_with_its_default() -> None:
    empty = Mock()
    empty.get.return_value = ""
    settings = read_settings(empty)
    documented = dict(
        re.findall(r"^\| `([A-Z_]+)` \| `?([^|`]+)`? \|", (SAMPLE / "README.md").read_text(), re.MULTILINE)
    )

    assert sorted(documented) == sorted(call.args[0] for call in empty.get.call_args_list)
    shape = {"MODEL_LAYERS": settings.shape.layers, "MODEL_WIDTH": settings.shape.width}
    for name, default in documented.items():
        value = shape[name] if name in shape else getattr(settings, name.lower())
        assert default == ("unset" if value is None else str(value).lower())
