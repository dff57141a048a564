"""Starts a helper for each invocation, and forgets it."""

import subprocess
import sys

HELPER = "import json, sys; print('ready', flush=True); sys.stdin.read()"
helpers = []


def handler(event: object, context: object) -> bytes:
    helper = subprocess.Popen([sys.executable, "-c", HELPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    helpers.append(helper)
    return helper.stdout.readline()
