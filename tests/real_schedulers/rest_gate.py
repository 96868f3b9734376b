"""A door to slurmrestd for processes outside its PID namespace, whose connections it refuses. Standard library only.

`rest_gate.py DOOR SOCKET`: every connection to the socket DOOR becomes one to SOCKET, by the user that runs this.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


async def main(door: str, target: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, asks = await asyncio.open_unix_connection(target)
        except OSError:  # slurmrestd is down: the connection ends, as one to it would
            writer.close()
            return
        # slurmrestd takes a half-closed connection for an ended one, so the answer decides about the end.
        asking = asyncio.ensure_future(_copy(reader, asks))
        await _copy(answers, writer)
        asking.cancel()
        asks.close()
        writer.close()

    async with await asyncio.start_unix_server(serve, door) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
