"""An event in, a request or one clear line out."""

from typing import Any

import pytest
from events import BadEvent, Request, read_event
from network import Shape
from settings import Settings

SETTINGS = Settings(model_count=3, shape=Shape(layers=1, width=16))
ROW = [0.5] * 16


def test_a_model_is_enough() -> None:
    assert read_event({"model": 2}, SETTINGS) == Request(model=2, batch=1, rows=None, tenant=None)


def test_rows_and_tenant_are_taken_as_they_are() -> None:
    event = {"model": 0, "rows": [ROW, [*ROW[:-1], -3]], "tenant": "acme.eu:prod"}
    assert read_event(event, SETTINGS) == Request(model=0, batch=2, rows=event["rows"], tenant="acme.eu:prod")  # type: ignore[arg-type]


def test_what_another_service_adds_to_the_event_is_ignored() -> None:
    assert read_event({"model": 1, "source": "aws.events", "batch": 5}, SETTINGS).batch == 5


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (None, 'event None must be an object, as in {"model": 3}'),
        ({}, '"model" must be a whole number from 0 to 2'),
        ({"model": True}, '"model" must be'),
        ({"model": 1, "batch": 0}, '"batch" must be a whole number from 1 to 16384'),
        ({"model": 1, "rows": []}, '"rows" is [], not a list of 1 to 256 rows'),
        ({"model": 1, "rows": [ROW, ROW[1:]]}, '"rows"[1] is 15 values, not a list of 16 numbers (MODEL_WIDTH)'),
        ({"model": 1, "rows": [[*ROW[:-1], "1"]]}, "\"rows\"[0][15] is '1', not a number from -1000000 to 1000000"),
        ({"model": 1, "rows": [[*ROW[:-1], float("nan")]]}, '"rows"[0][15] is nan'),
        ({"model": 1, "rows": [[*ROW[:-1], 10**400]]}, '"rows"[0][15] is 1000'),
        ({"model": 1, "rows": [ROW], "batch": 2}, '"batch" is 2 and "rows" are 1: leave out "batch"'),
        ({"model": 1, "tenant": ""}, "\"tenant\" is '', not 1 to 128 letters, digits or any of _.:@/-"),
        ({"model": 1, "tenant": "a" * 129}, '"tenant" is'),
    ],
)
def test_what_cannot_be_used_is_named_in_one_short_line(event: Any, words: str) -> None:
    with pytest.raises(BadEvent) as caught:
        read_event(event, SETTINGS)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert len(message) < 400
