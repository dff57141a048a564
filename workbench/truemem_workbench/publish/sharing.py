"""Pure: who may use a layer version beside its own account, as a statement of its policy."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from ..support.bad_input import BadInput

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
