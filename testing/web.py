"""A web server behind AWS's Lambda Web Adapter, or what stands for it, under the local Lambda."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from truemem_workbench.local import Invocation
from truemem_workbench.local.configuration.layer import WEB_ADAPTER, behind_adapter, free_port
from truemem_workbench.target.web_app import from_command, get

from .environment import FUNCTIONS, SIDECAR, Environment

SERVER = shlex.join([sys.executable, str(FUNCTIONS / "web.py")])
ROOT = Path(__file__).parents[1]
REAL = Path(os.environ.get("TRUEMEM_WEB_ADAPTER") or ROOT / "build" / "web-adapter" / "bin" / "lambda-adapter")
"""AWS's own, if it is there: `make web-adapter`."""


class WebEnvironment(Environment):
    """Its events are HTTP requests: /?do=hold&mib=5&ms=3."""

    def __init__(
        self,
        command: str = SERVER,
        *,
        adapter: Path = WEB_ADAPTER,
        sidecar: Path = SIDECAR,
        environment: Mapping[str, str] | None = None,
        exact: bool = True,
        **settings: Any,
    ) -> None:
        """`exact`: the adapter is pointed at the sidecar's port."""
        target = from_command(command, free_port())
        assert target.http is not None
        variables = {**behind_adapter(target.environment, target.http, exact=exact), **(environment or {})}
        super().__init__(target.function, sidecar=sidecar, extensions=[adapter], environment=variables, **settings)

    def attempt(self, do: str = "hold", **event: float) -> Invocation:
        invocation = self.local.invoke(get(f"/?{urlencode({'do': do, **event})}"))
        self.invocations.append(invocation)
        return invocation

    def invoke(self, do: str = "hold", **event: float) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(super().invoke(do, **event)["body"])
        return answer
