"""The regions that `--regions` names, and whether a region is used."""

from __future__ import annotations

import re
from typing import Any

from ..aws.clients import client, refused
from ..support.bad_input import BadInput

ALL = "all"
_NAME = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d{1,2}")
_BY_ORGANIZATION = "service control policy"
"""Stands in Lambda's message if the organization, and not the caller's own policy, denies a call."""


def regions(asked: str | None) -> list[str]:
    """The names: the caller's region by default, for `all` those that are enabled for the account. Raises BadInput."""
    if asked is None:
        return [client("lambda").meta.region_name]
    if asked == ALL:
        with refused("the regions of this account", "ec2:DescribeRegions"):
            return sorted(each["RegionName"] for each in client("ec2").describe_regions()["Regions"])
    names = list(dict.fromkeys(name.strip() for name in asked.split(",")))
    for name in names:
        if not _NAME.fullmatch(name):
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
