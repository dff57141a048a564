"""docs/check.md: the command and the plugin take its examples."""

import ast
import shlex

from truemem_workbench.commands import pytest_plugin
from truemem_workbench.commands.check import check
from truemem_workbench.commands.pytest_marker import MemoryMarker

from tests.attach.pages import block, blocks

PAGE = "check.md"


def commands() -> list[str]:
    shell = "\n".join(made.text for made in blocks(PAGE) if made.language == "bash")
    return [line for line in shell.splitlines() if "truemem check" in line]


def test_every_command_is_one_that_it_takes() -> None:
    assert commands()
    for command in commands():
        with check.make_context("truemem check", shlex.split(command)[2:]) as context:
            assert context.params["target"] or context.params["function_name"]


def test_the_tests_on_the_page_are_what_the_plugin_takes() -> None:
    tree = ast.parse(block(PAGE, "test_memory"))
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for test in tests:
        (marker,) = test.decorator_list
        assert isinstance(marker, ast.Call)
        given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in marker.keywords}
        MemoryMarker(**{str(name): value for name, value in given.items()})
        assert all(hasattr(pytest_plugin, argument.arg) for argument in test.args.args)
    assert len(tests) == 2
