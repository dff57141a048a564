"""Runs a tool for each invocation, and waits for its end."""

import os


def handler(event: object, context: object) -> int:
    tool = os.posix_spawnp("true", ["true"], os.environ)
    os.waitpid(tool, 0)
    return tool
