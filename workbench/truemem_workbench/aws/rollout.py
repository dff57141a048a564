"""Looks for the layer in many regions, and publishes it where it is missing. A region that fails stops no other."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from truemem import VERSION

from ..support.bad_input import BadInput
from ..support.terminal import Count
from .clients import client, refused
from .layer_zips import LayerZip

HASH_PREFIX = "sha256 "
"""What stands before the hash in a layer version's description."""


def layer_description(layer: LayerZip) -> str:
    """Description of the layer version: the only place that Lambda's list shows, so the content's hash is in it."""
    return f"True memory telemetry {VERSION}, {layer.architecture}, {HASH_PREFIX}{layer.sha256}"


def published_arn(client: Any, layer: LayerZip) -> str | None:
    """ARN of the newest version with this content in the client's region, or None. Raises botocore's errors.

    The caller needs lambda:ListLayerVersions and lambda:GetLayerVersion.
    """
    for page in client.get_paginator("list_layer_versions").paginate(LayerName=layer.name):
        for version in page["LayerVersions"]:
            if version.get("Description", "").endswith(HASH_PREFIX + layer.sha256):
                arn: str = version["LayerVersionArn"]
                found = client.get_layer_version(LayerName=layer.name, VersionNumber=version["Version"])
                if b64decode(found["Content"]["CodeSha256"]).hex() == layer.sha256:  # a description can say anything
                    return arn
    return None


def publish_layer(client: Any, layer: LayerZip) -> str:
    """Publish the zip as a new version. Returns its ARN. Raises botocore's errors."""
    made = client.publish_layer_version(
        LayerName=layer.name,
        Description=layer_description(layer),
        Content={"ZipFile": layer.path.read_bytes()},
        CompatibleArchitectures=[layer.architecture],
        LicenseInfo="Apache-2.0",
    )
    arn: str = made["LayerVersionArn"]
    return arn


ALL_REGIONS = "all"
_REGION_NAME = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d{1,2}")
_BY_ORGANIZATION = "service control policy"
"""Stands in Lambda's message if the organization, and not the caller's own policy, denies a call."""


def regions(asked: str | None) -> list[str]:
    """The names: the caller's region by default, for `all` those that are enabled for the account. Raises BadInput."""
    if asked is None:
        return [client("lambda").meta.region_name]
    if asked == ALL_REGIONS:
        with refused("the regions of this account", "ec2:DescribeRegions"):
            return sorted(each["RegionName"] for each in client("ec2").describe_regions()["Regions"])
    names = list(dict.fromkeys(name.strip() for name in asked.split(",")))
    for name in names:
        if not _REGION_NAME.fullmatch(name):
            raise BadInput(f"--regions {asked}: {name!r} is no region. Try --regions eu-west-1,us-east-1, or all")
    return names


def has_functions(lambdas: Any, region: str) -> bool:
    """True if the account has a function in the client's region. A region that the organization denies has none.

    Raises BadInput.
    """
    with refused(f"functions in {region}", "lambda:ListFunctions", region):
        from botocore.exceptions import ClientError

        try:
            return bool(lambdas.list_functions(MaxItems=1)["Functions"])
        except ClientError as error:
            if _BY_ORGANIZATION in error.response.get("Error", {}).get("Message", ""):
                return False
            raise


ACTION = "lambda:GetLayerVersion"


class Share(NamedTuple):
    """The accounts that get access."""

    organization: str | None
    """ID of the organization, or None for every AWS account."""

    @property
    def whom(self) -> str:
        return "Every AWS account" if self.organization is None else f"Every account of {self.organization}"

    @property
    def request(self) -> dict[str, str]:
        """Arguments of AddLayerVersionPermission beside the version."""
        given = {"Action": ACTION, "Principal": "*"}
        if self.organization is None:
            return {**given, "StatementId": "truemem-public"}
        return {**given, "StatementId": f"truemem-{self.organization}", "OrganizationId": self.organization}

    @property
    def statement(self) -> dict[str, Any]:
        """The statement as Lambda writes it into the policy. The resource, the version's ARN, is left out."""
        made: dict[str, Any] = {"Effect": "Allow", "Principal": "*", "Action": ACTION}
        if self.organization is not None:
            made["Condition"] = {"StringEquals": {"aws:PrincipalOrgID": self.organization}}
        return made


def share(organization: str | None, public: bool) -> Share | None:
    """What the two options ask for. None: the layer stays the account's own. Raises BadInput."""
    if public and organization is not None:
        raise BadInput("--public includes every organization. Leave --public or --organization out")
    if organization is not None and not re.fullmatch(r"o-[a-z0-9]{10,32}", organization):
        fix = "Try the ID that aws organizations describe-organization prints, such as o-a1b2c3d4e5"
        raise BadInput(f"--organization {organization}: this is no ID of an organization. {fix}")
    return Share(organization) if public or organization is not None else None


def covers(policy: str, wanted: Share) -> bool:
    """True if this policy, a JSON text, already gives that access, or more."""
    return any(_allows(statement, wanted) for statement in json.loads(policy).get("Statement", []))


def _allows(statement: dict[str, Any], wanted: Share) -> bool:
    if statement.get("Effect") != "Allow" or ACTION not in _listed(statement.get("Action")):
        return False
    if statement.get("Principal") not in ("*", {"AWS": "*"}):
        return False
    condition = statement.get("Condition")
    if not condition:
        return True
    only = {"StringEquals": {"aws:PrincipalOrgID": wanted.organization}}
    return wanted.organization is not None and bool(condition == only)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


REGIONS_AT_ONCE = 8
"""Regions that are worked on at the same time. Limits of AWS's API are for each region."""
PUBLISHED, PRESENT, MISSING, FAILED = "published", "present", "missing", "failed"
"""Outcomes: published now, there before, to be published, and not to be had."""

T = TypeVar("T")
Given = TypeVar("Given")


@dataclass(slots=True)
class Version:
    """The layer of one architecture in one region."""

    region: str
    layer: LayerZip
    lambdas: Any
    """Lambda's client of the region."""
    outcome: str = MISSING
    arn: str | None = None
    shared: bool = False
    """True if the access that was asked for is there. Without such a question it stays False."""
    problem: str | None = None
    """Why it failed, in one line with a fix."""

    def due(self, share: Share | None) -> bool:
        """True if something is to be done here."""
        return self.outcome == MISSING or (self.outcome == PRESENT and share is not None and not self.shared)


def look(
    regions: Sequence[str], layers: Sequence[LayerZip], share: Share | None, advance: Count, *, used: bool
) -> list[Version]:
    """What is there, by region. Changes nothing. `used` leaves out the regions without any function."""
    found = _everywhere(partial(_look_in, layers=layers, share=share, used=used), regions, advance)
    return [version for versions in found for version in versions]


def bring(due: Sequence[Version], share: Share | None, advance: Count) -> None:
    """Publish what is missing, and share what is not shared. Writes the outcome into each version."""
    _everywhere(partial(_bring_one, share=share), due, advance)


def _look_in(region: str, layers: Sequence[LayerZip], share: Share | None, used: bool) -> list[Version]:
    lambdas = client("lambda", region_name=region)
    versions = [Version(region, layer, lambdas) for layer in layers]
    waiting = list(versions)
    try:
        if used and not has_functions(lambdas, region):
            return []
        while waiting:
            _look_for(waiting[0], share)
            del waiting[0]
    except BadInput as problem:  # the next one would be refused as well
        for version in waiting:
            version.outcome, version.problem = FAILED, str(problem)
    return versions


def _look_for(version: Version, share: Share | None) -> None:
    what = f"layer {version.layer.name} in {version.region}"
    with refused(what, "lambda:ListLayerVersions and lambda:GetLayerVersion", version.region):
        version.arn = published_arn(version.lambdas, version.layer)
    if version.arn is None:
        return
    version.outcome = PRESENT
    if share is not None:
        with refused(what, "lambda:GetLayerVersionPolicy", version.region):
            try:
                policy = version.lambdas.get_layer_version_policy(**_named(version.arn))["Policy"]
            except version.lambdas.exceptions.ResourceNotFoundException:
                return  # it has no policy
            version.shared = covers(policy, share)


def _bring_one(version: Version, share: Share | None) -> None:
    what = f"layer {version.layer.name} in {version.region}"
    try:
        if version.arn is None:
            with refused(what, "lambda:PublishLayerVersion", version.region):
                version.arn = publish_layer(version.lambdas, version.layer)
            version.outcome = PUBLISHED
        if share is not None and not version.shared:
            with refused(what, "lambda:AddLayerVersionPermission", version.region):
                version.lambdas.add_layer_version_permission(**_named(version.arn), **share.request)
            version.shared = True
    except BadInput as problem:
        version.outcome, version.problem = FAILED, str(problem)


def _named(arn: str) -> dict[str, Any]:
    """A layer version as the API's arguments name it."""
    layer, _, number = arn.rpartition(":")
    return {"LayerName": layer.rpartition(":")[2], "VersionNumber": int(number)}


def _everywhere(work: Callable[[Given], T], places: Iterable[Given], advance: Count) -> list[T]:
    """The results of the work at all places, in their order. A signal lets what has begun end, and begins nothing."""
    with ThreadPoolExecutor(REGIONS_AT_ONCE) as pool:
        futures = [pool.submit(work, place) for place in places]
        try:
            for _ in as_completed(futures):
                advance(1)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in futures]
