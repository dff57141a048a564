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
        "MODEL_COUNT": "100",
        "CACHE_SIZE": "100",
        "POP_BEFORE_LOAD": "true",
        "MMAP_THRESHOLD": "32768",
        "MODEL_BUCKET": "my-models.eu",
        "MODEL_LAYERS": "60",
    }
    settings = Settings(
        load_from="path",
        model_count=100,
        cache_size=100,
        pop_before_load=True,
        mmap_threshold=32768,
        model_bucket="my-models.eu",
        shape=Shape(layers=60),
    )
    assert read_settings(variables) == settings


def test_an_empty_variable_means_the_default() -> None:
    assert read_settings({"CACHE_SIZE": "", "MMAP_THRESHOLD": " ", "LOAD_FROM": ""}) == Settings()


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"LOAD_FROM": "s3"}, "LOAD_FROM='s3' is not a way to load: set it to bytes or path"),
        ({"CACHE_SIZE": "sixteen"}, "CACHE_SIZE='sixteen' is not a number from 0 to 40"),
        ({"POP_BEFORE_LOAD": "yes"}, "POP_BEFORE_LOAD='yes' is not a switch: set it to true or false"),
        ({"MMAP_THRESHOLD": "32KiB"}, "MMAP_THRESHOLD='32KiB' is not .*try 32768"),
        ({"MODEL_DIR": "models"}, "MODEL_DIR='models' is not an absolute path"),
        ({"MODEL_BUCKET": "s3://models"}, "MODEL_BUCKET='s3://models' is not .*without s3://"),
        ({"MODEL_PREFIX": "models"}, "MODEL_PREFIX='models' is not .*one at the end"),
        ({"MODEL_WIDTH": "wide"}, "MODEL_WIDTH='wide' is not a number from 16 to 4096"),
        ({"MODEL_COUNT": "3", "CACHE_SIZE": "4"}, "CACHE_SIZE='4' is not a number from 0 to 3"),
        (
            {"MODEL_LAYERS": "256", "MODEL_WIDTH": "1025"},
            "MODEL_LAYERS=256 with MODEL_WIDTH=1025 is 1027 MiB a model, and 1024 is the most: lower one of them",
        ),
        ({"MODEL_STORE_MIB": "6"}, r"MODEL_STORE_MIB=6 does not hold one model of 6\.0 MiB \(MODEL_LAYERS=24, "),
    ],
)
def test_a_bad_value_names_variable_value_and_what_to_do(variables: dict[str, str], said: str) -> None:
    with pytest.raises(BadSetting, match=f"^{said}") as caught:
        read_settings(variables)
    assert "\n" not in str(caught.value)


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
