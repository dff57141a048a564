"""What web.py does, as an ASGI application: uvicorn and Starlette."""

from __future__ import annotations

from typing import Any

import touch  # type: ignore[import-not-found]  # beside this file, which a program imports
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route


async def home(request: Request) -> Response:
    event: dict[str, Any] = {**request.query_params}
    if "do" not in event:
        return PlainTextResponse("ready")
    event.update({name: float(event[name]) for name in ("mib", "ms") if name in event})
    return JSONResponse(touch.handler(event, None))


app = Starlette(routes=[Route("/", home)])
