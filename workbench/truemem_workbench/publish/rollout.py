"""Looks for the layer in many regions, and publishes it where it is missing. A region that fails stops no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from ..aws.clients import client, refused
from ..aws.layer_zips import LayerZip
from ..support.bad_input import BadInput
from ..support.terminal import Count
from .layer_versions import publish, published
from .regions import has_functions
from .sharing import Share, covers

AT_ONCE = 8
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
        version.arn = published(version.lambdas, version.layer)
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
                version.arn = publish(version.lambdas, version.layer)
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
    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = [pool.submit(work, place) for place in places]
        try:
            for _ in as_completed(futures):
                advance(1)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in futures]
