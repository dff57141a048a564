"""Which functions: by name or ARN, by the pattern of a name, by a tag, by a stack."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import click

from ..support.bad_input import BadInput
from ..support.options import option_group
from .clients import FUNCTION_ARN, check_extended, client, name_of, refused

_FUNCTION_NAME = re.compile(r"[\w-]{1,64}", re.ASCII)

selection_options = option_group(
    click.argument("functions", nargs=-1, metavar="[NAME]..."),
    click.option("--match", "pattern", metavar="PATTERN", help="Functions by name: 'api-*'."),
    click.option("--tag", metavar="KEY=VALUE", help="Functions with this tag."),
    click.option("--stack", metavar="NAME", help="Functions of this CloudFormation stack, nested stacks included."),
)
"""Adds NAME..., --match, --tag and --stack to a command."""


class Selection(NamedTuple):
    """What the options of `selection_options` say. The last three narrow each other."""

    functions: Sequence[str]
    pattern: str | None
    tag: str | None
    stack: str | None


def selected(chosen: Selection) -> list[str]:
    """Names or ARNs of the functions, sorted, without repetition. Raises BadInput if there are none."""
    functions, pattern, tag, stack = chosen
    if functions and (pattern or tag or stack):
        raise BadInput("name functions, or choose them by --match, --tag and --stack. Leave one out")
    for given in functions:
        check_extended(given)
        if not (FUNCTION_ARN.fullmatch(given) or _FUNCTION_NAME.fullmatch(given)):
            raise BadInput(_not_a_function(given))
    if functions:
        return list(dict.fromkeys(functions))
    sets = []
    if tag:
        sets.append(_by_tag(tag))
    if stack:
        sets.append(_by_stack(stack))
    if pattern:
        names = sets[0] if sets else _all()
        sets.append({name for name in names if fnmatchcase(name, pattern)})
    if not sets:
        raise BadInput("no function is named. Try a name, --match 'api-*', --tag KEY=VALUE or --stack NAME")
    found = set.intersection(*sets)
    if not found:
        asked = {"--match": pattern, "--tag": tag, "--stack": stack}
        said = " ".join(f"{option} {value}" for option, value in asked.items() if value)
        raise BadInput(f"no function in this region and account has {said}. Check it, AWS_REGION and AWS_PROFILE")
    return sorted(found)


def _not_a_function(given: str) -> str:
    unqualified = name_of(given)
    if ":" in given and _FUNCTION_NAME.fullmatch(unqualified):
        why = "a version does not change, and an alias is one. Attach the function, publish a version, move the alias"
        return f"{given}: {why}. Try {unqualified}"
    return f"{given}: this is no name of a function. Quote a pattern: --match 'api-*'"


def _all() -> set[str]:
    with refused("the list of functions", "lambda:ListFunctions"):
        pages = client("lambda").get_paginator("list_functions").paginate()
        return {each["FunctionName"] for page in pages for each in page["Functions"]}


def _by_tag(tag: str) -> set[str]:
    key, equals, value = tag.partition("=")
    if not (key and equals):
        raise BadInput(f"--tag {tag}: not KEY=VALUE. Try --tag team=ml")
    with refused(f"the functions with {tag}", "tag:GetResources"):
        pages = client("resourcegroupstaggingapi").get_paginator("get_resources")
        wanted = {"TagFilters": [{"Key": key, "Values": [value]}], "ResourceTypeFilters": ["lambda:function"]}
        return {
            name_of(each["ResourceARN"]) for page in pages.paginate(**wanted) for each in page["ResourceTagMappingList"]
        }


def _by_stack(stack: str) -> set[str]:
    with refused(f"stack {stack}", "cloudformation:ListStackResources"):
        service = client("cloudformation")
        names: set[str] = set()
        waiting = [stack]
        while waiting:
            for page in service.get_paginator("list_stack_resources").paginate(StackName=waiting.pop()):
                for each in page["StackResourceSummaries"]:
                    made = each.get("PhysicalResourceId")  # absent where it could not be made
                    if made and each["ResourceType"] == "AWS::Lambda::Function":
                        names.add(made)
                    elif made and each["ResourceType"] == "AWS::CloudFormation::Stack":
                        waiting.append(made)
        return names
