"""Environment variables in, settings or one clear line out."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from network import Shape
from onnx_file import model_size
from settings import BadSetting, Settings, read_settings


@pytest.mark.parametrize(
    ("name", "value", "setting"),
    [
        ("LOAD_FROM", "path", "path"),
        ("CACHE_SIZE", "8", 8),
        ("POP_BEFORE_LOAD", "true", True),
        ("MMAP_THRESHOLD", "32768", 32768),
        ("INTRA_OP_THREADS", "2", 2),
        ("MODEL_DIR", "/mnt/models", Path("/mnt/models")),
        ("MODEL_STORE_MIB", "900", 900),
        ("MODEL_BUCKET", "my-models.eu", "my-models.eu"),
        ("MODEL_PREFIX", "onnx/v1/", "onnx/v1/"),
        ("MODEL_COUNT", "100", 100),
        ("MODEL_LAYERS", "60", Shape(layers=60)),
        ("MODEL_WIDTH", "512", Shape(width=512)),
        ("TRACER_ENABLED", "true", True),
    ],
)
def test_a_variable_is_one_setting_and_no_other(name: str, value: str, setting: object) -> None:
    changed = "shape" if isinstance(setting, Shape) else name.lower()
    assert read_settings({name: value}) == dataclasses.replace(Settings(), **{changed: setting})  # type: ignore[arg-type]


def test_an_empty_variable_means_the_default() -> None:
    assert read_settings({"CACHE_SIZE": "", "MMAP_THRESHOLD": " ", "LOAD_FROM": ""}) == Settings()


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("LOAD_FROM", "s3", "set it to bytes or path"),
        ("CACHE_SIZE", "sixteen", "0 to 40"),
        ("CACHE_SIZE", "-1", "0 to 40"),
        ("CACHE_SIZE", "41", "0 to 40"),
        ("CACHE_SIZE", "8.0", "0 to 40"),
        ("POP_BEFORE_LOAD", "yes", "true or false"),
        ("MMAP_THRESHOLD", "32KiB", "try 32768"),
        ("MMAP_THRESHOLD", "33554433", "0 to 33554432"),
        ("INTRA_OP_THREADS", "0", "1 to 64"),
        ("MODEL_DIR", "models", "an absolute path"),
        ("MODEL_STORE_MIB", "0", "1 to 10240"),
        ("MODEL_STORE_MIB", "10241", "1 to 10240"),
        ("MODEL_BUCKET", "s3://models", "without s3://"),
        ("MODEL_BUCKET", "Models", "a-z, 0-9"),
        ("MODEL_BUCKET", "m", "3 to 63"),
        ("MODEL_PREFIX", "models", "one at the end"),
        ("MODEL_PREFIX", "/models/", "no / in front"),
        ("MODEL_PREFIX", "mod els/", "letters, digits"),
        ("MODEL_COUNT", "0", "1 to 1000"),
        ("MODEL_LAYERS", "257", "1 to 256"),
        ("MODEL_WIDTH", "15", "16 to 4096"),
        ("MODEL_WIDTH", "wide", "16 to 4096"),
        ("TRACER_ENABLED", "on", "true or false"),
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


def test_models_as_large_as_the_incidents_need_no_more_than_the_defaults() -> None:
    settings = read_settings({"MODEL_LAYERS": "60", "MODEL_WIDTH": "1024"})
    assert 235 < model_size(settings.shape, 0) / 2**20 < 250


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
