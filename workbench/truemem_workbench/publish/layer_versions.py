"""Finds the layer version that has the content of a zip, or publishes it."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from truemem import VERSION

from ..aws.layer_zips import LayerZip

KEPT = "sha256 "
"""What stands before the hash in a layer version's description."""


def description(layer: LayerZip) -> str:
    """Description of the layer version: the only place that Lambda's list shows, so the content's hash is in it."""
    return f"True memory telemetry {VERSION}, {layer.architecture}, {KEPT}{layer.sha256}"


def published(client: Any, layer: LayerZip) -> str | None:
    """ARN of the newest version with this content in the client's region, or None. Raises botocore's errors.

    The caller needs lambda:ListLayerVersions and lambda:GetLayerVersion.
    """
    for page in client.get_paginator("list_layer_versions").paginate(LayerName=layer.name):
        for version in page["LayerVersions"]:
            if version.get("Description", "").endswith(KEPT + layer.sha256):
                arn: str = version["LayerVersionArn"]
                found = client.get_layer_version(LayerName=layer.name, VersionNumber=version["Version"])
                if b64decode(found["Content"]["CodeSha256"]).hex() == layer.sha256:  # a description can say anything
                    return arn
    return None


def publish(client: Any, layer: LayerZip) -> str:
    """Publish the zip as a new version. Returns its ARN. Raises botocore's errors."""
    made = client.publish_layer_version(
        LayerName=layer.name,
        Description=description(layer),
        Content={"ZipFile": layer.path.read_bytes()},
        CompatibleArchitectures=[layer.architecture],
        LicenseInfo="Apache-2.0",
    )
    arn: str = made["LayerVersionArn"]
    return arn
