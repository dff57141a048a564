"""Checks that CloudWatch would take a line: the schema, and that every reference has a value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema.validators import validator_for

VALUES = 100
"""Of one metric in one document, at most (EMF specification)."""
SCHEMA = json.loads(Path(__file__).with_name("emf.schema.json").read_text())
VALIDATOR = validator_for(SCHEMA)(SCHEMA)  # jsonschema.validate checks the schema each time, which takes 2.7 ms


def valid_emf(line: str) -> dict[str, Any]:
    """The document that the line holds. Raises AssertionError or jsonschema.ValidationError if it is not EMF."""
    document: dict[str, Any] = json.loads(line, parse_constant=_refuse)
    VALIDATOR.validate(document)
    for directive in document["_aws"]["CloudWatchMetrics"]:
        for dimensions in directive["Dimensions"]:
            for name in dimensions:
                assert isinstance(document[name], str), name
                assert 1 <= len(document[name]) <= 1024, name
        for metric in directive["Metrics"]:
            values = document[metric["Name"]]
            values = values if isinstance(values, list) else [values]
            assert 1 <= len(values) <= VALUES, metric["Name"]
            assert all(isinstance(value, int | float) for value in values), metric["Name"]
    return document


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")
