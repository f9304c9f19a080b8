"""Forwards a port to another one, where a suite expects a listener at an address that the broker does not choose."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def forwarded(port: int, to: int) -> Iterator[None]:
    """Forward connections to a port of loopback to another port of loopback."""
    loop = asyncio.new_event_loop()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", to)
        await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))

    loop.run_until_complete(asyncio.start_server(connect, "127.0.0.1", port))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
