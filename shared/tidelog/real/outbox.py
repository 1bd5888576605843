"""What waits to be written to the connection: in order, bounded, independent of its callers."""

from __future__ import annotations

import asyncio
from collections import deque

import msgspec

from tidelog.ports import Message

ROOM_BYTES = 8 << 20
"""What may be queued before those who can wait do."""
HARD_BYTES = 64 << 20
"""Beyond this even answers, which can't wait, are refused."""


class Waiting:
    """Somebody waits for the answer to one message."""

    __slots__ = ("_future", "sent", "subject", "token")

    def __init__(self, token: str) -> None:
        self.token = token
        self.subject = ""
        self._future: asyncio.Future[Message] | None = asyncio.get_running_loop().create_future()
        self.sent = False

    @property
    def future(self) -> asyncio.Future[Message]:
        """The answer, for whoever waits: until `forget`."""
        assert self._future is not None
        return self._future

    @property
    def settled(self) -> bool:
        return self._future is None or self._future.done()

    def answer(self, message: Message) -> None:
        if not self.settled:
            self.future.set_result(message)

    def fail(self, error: Exception) -> None:
        if not self.settled:
            self.future.set_exception(error)

    def forget(self) -> None:
        """Nobody waits any more. An error knows the frames that it went through, and those know
        this: with the error it would be a cycle for each request that fails, which stays until the
        collector comes."""
        future, self._future = self._future, None
        if future is not None and not future.cancel() and not future.cancelled():
            future.exception()  # retrieved, so that asyncio does not complain


class Command(msgspec.Struct, frozen=True, gc=False):
    """One message to publish; not sent any more once `waiting` is settled."""

    subject: str
    data: bytes
    headers: dict[str, str]
    reply: str
    size: int
    waiting: Waiting | None = None


class Outbox:
    def __init__(self) -> None:
        self._commands: deque[Command] = deque()
        self._room: deque[asyncio.Future[None]] = deque()
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._commands)

    def put(self, command: Command) -> None:
        self._commands.append(command)
        self.bytes += command.size
        self._idle.clear()
        self._work.set()

    def pop(self) -> Command:
        command = self._commands.popleft()
        self.bytes -= command.size
        if self.bytes < ROOM_BYTES:
            self._wake_one()
        return command

    def _wake_one(self) -> None:
        while self._room:
            gate = self._room.popleft()
            if not gate.done():
                gate.set_result(None)
                return

    async def room(self) -> None:
        """Wait until less than ROOM_BYTES are queued, in order of arrival."""
        while self.bytes >= ROOM_BYTES:
            gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(gate)
            await gate
        if self.bytes < ROOM_BYTES:
            self._wake_one()

    async def work(self) -> None:
        """Wait until there is a command."""
        if not self._commands:
            self._work.clear()
            self._idle.set()
            await self._work.wait()

    async def idle(self) -> None:
        """Wait until everything was taken and sent."""
        await self._idle.wait()
