"""Deploys the probe's own stack: the layers and probe functions of template.yaml, and nothing else."""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import WaiterError

from deploy import application

from .variants import ARCHIVES, Variant

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_s3 import S3Client

FUNCTION = Path(__file__).with_name("function")
KEPT = ("ProbeLog", "ProbeRole")


class StackError(Exception):
    """The stack could not be made. The message is one line: what is wrong, and how to fix it."""


def function_archive() -> bytes:
    """The probe as a zip."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(FUNCTION.glob("*.py")):
            archive.write(path, path.name)
    return content.getvalue()


def template(variants: Sequence[Variant], bucket: str) -> application.Template:
    """The stack as plain CloudFormation, its code in `bucket`."""
    layers = [variant.layer for variant in variants if variant.layer]
    functions = {variant.function: "probe.zip" for variant in variants if not variant.image_parameter}
    names = [*KEPT, *layers, *(variant.function for variant in variants)]
    keys = {**{layer: ARCHIVES[layer] for layer in layers}, **functions}
    source = application.located(application.only(application.load(), names), bucket, keys)
    source["Outputs"] = {variant.function: {"Value": {"Ref": variant.function}} for variant in variants}
    return application.translated(source)


@contextmanager
def deployed(
    s3: S3Client,
    cloudformation: CloudFormationClient,
    variants: Sequence[Variant],
    *,
    dist: Path,
    images: Mapping[str, str],
    memory_mib: int,
    say: Callable[[str], None],
) -> Iterator[dict[str, str]]:
    """Deploy, and yield the functions' names by variant. Bucket and stack are always removed at the end.

    `images` are URIs by variant. Raises StackError, and boto3's errors.
    """
    archives = {ARCHIVES[variant.layer] for variant in variants if variant.layer}
    missing = [name for name in sorted(archives) if not (dist / name).is_file()]
    if missing:
        raise StackError(f"no {dist / missing[0]}. Run make layer")
    name = f"truemem-probe-{uuid.uuid4().hex[:12]}"
    with _bucket(s3, name, say):
        for archive in sorted(archives):
            s3.put_object(Bucket=name, Key=archive, Body=(dist / archive).read_bytes())
        s3.put_object(Bucket=name, Key="probe.zip", Body=function_archive())
        parameters = {"ProbeMemory": str(memory_mib)}
        parameters |= {v.image_parameter: images[v.name] for v in variants if v.image_parameter}
        with _stack(cloudformation, name, template(variants, name), parameters, say) as outputs:
            yield {variant.name: outputs[variant.function] for variant in variants}


@contextmanager
def _bucket(s3: S3Client, name: str, say: Callable[[str], None]) -> Iterator[None]:
    region = s3.meta.region_name
    say(f"bucket {name} for the code, in {region}")
    if region == "us-east-1":
        s3.create_bucket(Bucket=name)  # the one region that must not be named
    else:
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": region})  # type: ignore[typeddict-item]
    try:
        yield
    finally:
        say(f"removing bucket {name}")
        for found in s3.list_objects_v2(Bucket=name).get("Contents", []):
            s3.delete_object(Bucket=name, Key=found["Key"])
        s3.delete_bucket(Bucket=name)


@contextmanager
def _stack(
    cloudformation: CloudFormationClient,
    name: str,
    body: application.Template,
    parameters: Mapping[str, str],
    say: Callable[[str], None],
) -> Iterator[dict[str, str]]:
    say(f"stack {name}")
    cloudformation.create_stack(
        StackName=name,
        TemplateBody=json.dumps(body),
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
        Capabilities=["CAPABILITY_IAM"],
        OnFailure="DO_NOTHING",  # so that its events can be read; it is deleted below in any case
    )
    try:
        try:
            cloudformation.get_waiter("stack_create_complete").wait(StackName=name)
        except WaiterError as error:
            raise StackError(f"stack {name} was not made: {_reason(cloudformation, name)}") from error
        (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
        yield {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    finally:
        say(f"removing stack {name}")
        cloudformation.delete_stack(StackName=name)
        cloudformation.get_waiter("stack_delete_complete").wait(StackName=name)


def _reason(cloudformation: CloudFormationClient, name: str) -> str:
    """The first failure among its events, which come newest first."""
    events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
    failed = [event for event in events if event.get("ResourceStatus", "").endswith("_FAILED")]
    if not failed:
        return "its events do not say why"
    return f"{failed[-1]['LogicalResourceId']}: {failed[-1].get('ResourceStatusReason', 'no reason given')}"
