"""The server of the RPC limits, a process of its own as a Pump is: `python -m bench.echo URL`.

Answers every NATS request on SUBJECT and every gRPC call of METHOD with the first ANSWER bytes of
what it got (a Pump's ack is short, too), and prints the gRPC port when both are served. Ends when
its input ends.
"""

from __future__ import annotations

import asyncio
import sys

import grpc
import nats
import uvloop
from nats.aio.msg import Msg

SUBJECT = "bench.echo"
SERVICE, NAME = "bench.Echo", "Call"
METHOD = f"/{SERVICE}/{NAME}"
ANSWER = 256

Context = grpc.aio.ServicerContext[bytes, bytes]


async def _echo(request: bytes, context: Context) -> bytes:
    return request[:ANSWER]


async def main(url: str) -> None:
    client = await nats.connect(url)

    async def answer(message: Msg) -> None:
        await client.publish(message.reply, message.data[:ANSWER])

    await client.subscribe(SUBJECT, cb=answer)
    await client.flush()
    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(_echo)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {NAME: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(None)
    await client.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
