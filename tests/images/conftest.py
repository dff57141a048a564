"""Fixtures: a layer with Python, and images upon it."""

from __future__ import annotations

import subprocess

import pytest

from testing.images import packed, python_root
from tests.check.conftest import invoke_check, refused
from tests.report.conftest import truemem

__all__ = ["invoke_check", "refused", "truemem"]


@pytest.fixture
def shared_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache of images of this run of tests, and not the user's own: a root is unpacked once."""
    monkeypatch.setenv("TRUEMEM_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A layer with this machine's Python and AWS's runtime client."""
    if subprocess.run(["unshare", "--mount", "--map-root-user", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces here")
    return packed(python_root(tmp_path_factory.mktemp("python")))
