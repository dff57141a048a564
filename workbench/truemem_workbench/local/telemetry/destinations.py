"""The listener of an extension: HTTP, or one TCP connection."""

from __future__ import annotations

import asyncio
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp


class Destination(Protocol):
    async def send(self, items: list[bytes]) -> None:
        """Send events. Raises OSError or aiohttp.ClientError if the subscriber did not take them."""

    def close(self) -> None: ...


class HttpDestination:
    """Posts a JSON array to the subscriber's URI. The sandbox's host names mean this machine's loopback."""

    def __init__(self, session: aiohttp.ClientSession, uri: str) -> None:
        parts = urlsplit(uri)
        self._session = session
        self._host = parts.netloc
        self._url = parts._replace(netloc=f"127.0.0.1:{parts.port}").geturl()

    async def send(self, items: list[bytes]) -> None:
        headers = {"Content-Type": "application/json", "Host": self._host}
        body = b"[" + b",".join(items) + b"]"
        async with self._session.post(self._url, data=body, headers=headers) as response:
            await response.read()
            if response.status >= 400:
                raise ConnectionError(f"status {response.status}")

    def close(self) -> None: ...


class TcpDestination:
    """Sends one event per line on one long connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, items: list[bytes]) -> None:
        self._writer.write(b"".join(item + b"\n" for item in items))
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()
