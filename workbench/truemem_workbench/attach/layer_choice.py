"""Which layer version a function gets: one that the user names, the account's own, or one that is published now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..aws.layer_zips import ARCHITECTURES, NAME, LayerZip, is_ours, layer_zip
from ..support.bad_input import BadInput
from .function_state import FunctionState
from .lambda_calls import LambdaCalls
from .plan import Left, Plan

NEW = "NEW"
"""Version in the plan of a layer that is not published yet."""


class LayerChoice:
    """Layer versions by region and architecture. Each is asked for once."""

    def __init__(self, calls: LambdaCalls, given: Sequence[str]) -> None:
        """`given` are ARNs. Raises BadInput if one is not of our layer."""
        self._calls = calls
        self._given: dict[tuple[str, str], str] = {}
        for arn in given:
            if not is_ours(arn) or arn.endswith(f":{NEW}"):
                raise BadInput(f"--layer {arn}: not the ARN of a layer version of {NAME}{' or '.join(ARCHITECTURES)}")
            region, name = arn.split(":")[3], arn.split(":")[6]
            self._given[region, name.removeprefix(NAME)] = arn
        self._found: dict[tuple[str, str], str | None] = {}
        self._zips: dict[str, LayerZip] = {}

    def arn(self, state: FunctionState) -> str:
        """The layer version for this function; its version is NEW until it is published. Raises BadInput."""
        place = (state.region, state.architecture)
        if state.image or state.architecture not in ARCHITECTURES:
            return ""
        if self._given:
            if place not in self._given:
                raise BadInput(f"{state.name} needs a layer for {place[1]} in {place[0]}. Try one more --layer ARN")
            return self._given[place]
        if place not in self._found:
            self._zips.setdefault(place[1], layer_zip(place[1]))
            self._found[place] = self._calls.published(place[0], self._zips[place[1]])
        return self._found[place] or state.layer_arn(NAME + place[1], NEW)

    def announced(self, plans: Iterable[Plan | Left]) -> list[str]:
        """Lines about the layers that `publish` would publish."""
        return [f"publish {NAME}{architecture} in {region}" for region, architecture in self._missing(plans)]

    def publish(self, plans: Iterable[Plan | Left]) -> None:
        """Publish what these plans need and the account does not have. Raises BadInput."""
        for region, architecture in self._missing(plans):
            self._found[region, architecture] = self._calls.publish(region, self._zips[architecture])

    def _missing(self, plans: Iterable[Plan | Left]) -> list[tuple[str, str]]:
        needed = {
            (each.state.region, each.state.architecture)
            for each in plans
            if isinstance(each, Plan) and any(arn.endswith(f":{NEW}") for arn in each.change.layers[1])
        }
        return sorted(needed)
