"""tests/lines/test_python.py with the functions under each Python that Lambda has."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.install.test_pythons import interpreter

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]


@pytest.mark.parametrize("version", ["3.10", "3.12", "3.13", "3.14"])
def test_lines_under_another_python(version: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", Path(__file__).with_name("test_python.py")],
        env={**os.environ, "TRUEMEM_TEST_PYTHON": interpreter(version)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
