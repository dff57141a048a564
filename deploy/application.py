"""Loads template.yaml, and translates it to plain CloudFormation with AWS's own translator."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from samtranslator.translator.transform import transform  # type: ignore[import-untyped]
from samtranslator.yaml_helper import yaml_parse  # type: ignore[import-untyped]

TEMPLATE = Path(__file__).parents[1] / "template.yaml"

Template = dict[str, Any]

logging.getLogger("samtranslator").setLevel(logging.ERROR)  # it warns about its own metrics, which are not published


class _NoManagedPolicies:
    """The translator asks for the ARNs of AWS's managed policies. The template uses none."""

    def load(self) -> dict[str, str]:
        return {}


def load(path: Path = TEMPLATE) -> Template:
    """The template, its short intrinsics (`!Ref`) written out."""
    template: Template = yaml_parse(path.read_text())
    return template


def translated(template: Mapping[str, Any], parameters: Mapping[str, str] | None = None) -> Template:
    """Translate the template to one without `Transform`. Code and layers must be S3 locations. Raises the translator's
    errors."""
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")  # it asks boto3 for one; nothing of it is in the output
    plain: Template = transform(copy.deepcopy(dict(template)), dict(parameters or {}), _NoManagedPolicies())
    return plain


def located(template: Mapping[str, Any], bucket: str, keys: Mapping[str, str]) -> Template:
    """A copy in which the code or content of each resource in `keys` is an object of `bucket`."""
    copied = copy.deepcopy(dict(template))
    for name, key in keys.items():
        resource = copied["Resources"][name]
        layer = resource["Type"] == "AWS::Serverless::LayerVersion"
        resource["Properties"]["ContentUri" if layer else "CodeUri"] = {"Bucket": bucket, "Key": key}
    return copied
