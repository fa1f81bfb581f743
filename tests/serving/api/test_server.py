"""How a server begins: its socket, and its refusal to start."""

from __future__ import annotations

import asyncio
import socket

from orchestai.serving.api.server import listen


async def test_replies_are_sent_at_once() -> None:
    """A reply is written in two parts; the second waited 40 ms for the client to acknowledge the first."""
    delays: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        delays.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with listen("127.0.0.1", 0) as listening:
        server = await asyncio.start_server(connected, sock=listening)
        async with server:
            _, writer = await asyncio.open_connection(*listening.getsockname())
            assert await asyncio.wait_for(delays, 10)
            writer.close()
