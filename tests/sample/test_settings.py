"""Environment variables in, settings or one clear line out."""

from __future__ import annotations

from pathlib import Path

import pytest
from settings import BadSetting, Settings, read_settings


def test_without_variables_it_is_the_incident() -> None:
    assert read_settings({}) == Settings(
        load_from="bytes",
        cache_size=16,
        pop_before_load=False,
        mmap_threshold=None,
        intra_op_threads=6,
        model_dir=Path("/tmp/truemem-models"),
    )


def test_every_variable_is_read() -> None:
    assert read_settings(
        {
            "LOAD_FROM": "path",
            "CACHE_SIZE": "8",
            "POP_BEFORE_LOAD": "true",
            "MMAP_THRESHOLD": "32768",
            "INTRA_OP_THREADS": "2",
            "MODEL_DIR": "/mnt/models",
        }
    ) == Settings(
        load_from="path",
        cache_size=8,
        pop_before_load=True,
        mmap_threshold=32768,
        intra_op_threads=2,
        model_dir=Path("/mnt/models"),
    )


def test_an_empty_variable_means_the_default() -> None:
    assert read_settings({"CACHE_SIZE": "", "MMAP_THRESHOLD": " ", "LOAD_FROM": ""}) == Settings()


@pytest.mark.parametrize(
    ("name", "value", "mend"),
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
    ],
)
def test_a_bad_value_names_variable_value_and_mend(name: str, value: str, mend: str) -> None:
    with pytest.raises(BadSetting) as caught:
        read_settings({name: value})

    message = str(caught.value)
    assert message.startswith(f"{name}={value!r} is not ")
    assert mend in message
    assert "\n" not in message
