"""Helpers of all four APIs: JSON answers, AWS's error bodies, and request bodies with a size limit."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from aiohttp.typedefs import Middleware

from ...support.bad_input import BadInput
from .. import errors
from ..errors import ApiRefusal
from ..lifecycle.events import compact

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LOOPBACK = "127.0.0.1"
MAX_READ = 256 * 1024 * 1024
"""The HTTP server's own limit in bytes. It is above the limit of every API, so that each API can refuse as AWS does."""

MOST_HEADER = 2 * 1024 * 1024
"""Longest header in bytes: AWS's client for Java tells X-Ray a stack in one, of up to 1 MiB."""

_log = logging.getLogger(__name__)


def reply(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(
        body=compact(body),
        status=status,
        headers={"Content-Type": "application/json", **(headers or {})},
    )


def accepted() -> web.Response:
    return reply({"status": "OK"}, 202)


def with_api_errors(handler: Handler) -> Handler:
    """Turn an ApiRefusal into the answer that AWS's APIs give. An unexpected exception becomes a 500."""

    async def answered(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except ApiRefusal as refusal:
            return reply(refusal.body(), refusal.status)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception:
            _log.exception("%s %s", request.method, request.path)
            broken = errors.internal_server_error()
            return reply(broken.body(), broken.status)

    return answered


async def read(request: web.Request, limit: int) -> bytes:
    """Read the request's body. Raises ApiRefusal: 413 above `limit` bytes, 400 if the body was cut off."""
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise errors.too_large(limit) from None
    except ConnectionError:
        raise errors.truncated_request() from None
    if len(body) > limit:
        raise errors.too_large(limit)
    return body


def bind(port: int) -> socket.socket:
    """Listen on loopback; port 0 takes a free one. Raises BadInput."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((LOOPBACK, port))
        bound.listen(128)  # binding alone does not find a listener that also set SO_REUSEADDR
    except OSError as error:
        bound.close()
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        why = "is in use" if error.errno == errno.EADDRINUSE else "needs more rights than yours"
        raise BadInput(f"port {port} {why}. Try --port 0 (a free one)") from None
    return bound


async def serve(bound: socket.socket, routes: list[web.RouteDef], *middlewares: Middleware) -> web.AppRunner:
    """Serve these routes at a socket, until the runner's `cleanup`."""
    # An environment's APIs have no middleware: aiohttp would keep the last thousand handlers, and so what has ended.
    app = web.Application(middlewares=middlewares, client_max_size=MAX_READ)
    app.add_routes([web.route(each.method, each.path, with_api_errors(each.handler)) for each in routes])
    runner = web.AppRunner(
        app, access_log=None, shutdown_timeout=0.2, auto_decompress=False, max_field_size=MOST_HEADER
    )
    await runner.setup()
    await web.SockSite(runner, bound).start()
    return runner
