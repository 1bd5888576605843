"""Serving a subject: requests in order of arrival, one handler call at a time, bounded."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

from tidelog.errors import TidelogError
from tidelog.messages import encode_error
from tidelog.ports import Handler, Headers
from tidelog.real import bus_metrics as metrics
from tidelog.real.cancellable import cancellable
from tidelog.real.nats_client import parse_headers

log = structlog.get_logger()

PENDING_COUNT = 65_536
PENDING_BYTES = 64 << 20
"""What may wait for a slow handler. Core NATS has no flow control: beyond it requests are dropped,
loudly, and their senders see a deadline."""
CLOSE_S = 2.0
"""A handler that is cancelled has that long to end."""

Answer = Callable[[str, bytes, Headers | None], None]


class NatsRequest:
    __slots__ = ("_answer", "_raw", "_reply", "data", "subject")

    def __init__(self, subject: str, data: bytes, raw: bytes, reply: str, answer: Answer) -> None:
        self.subject = subject
        self.data = data
        self._raw = raw
        self._reply = reply
        self._answer = answer

    @property
    def headers(self) -> Headers:
        return parse_headers(self._raw)[2]

    @property
    def wants_reply(self) -> bool:
        return bool(self._reply)

    def respond(self, data: bytes, headers: Headers | None = None) -> None:
        reply, self._reply = self._reply, ""
        if reply:
            self._answer(reply, data, headers)


class ServedSubject:
    def __init__(
        self,
        subject: str,
        handler: Handler,
        answer: Answer,
        withdraw: Callable[[ServedSubject], None],
    ) -> None:
        self.subject = subject
        self.number = 0
        self.task: asyncio.Task[None] | None = None
        self._handler = handler
        self._answer = answer
        self._withdraw = withdraw
        self._pending: deque[NatsRequest] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()
        self.requests = 0
        self.errors = 0
        self._dropped = metrics.dropped_requests.labels(subject)
        self._failed = metrics.handler_errors.labels(subject)

    def on_message(self, subject: bytes, reply: bytes, data: bytes, raw: bytes) -> None:
        full = len(self._pending) >= PENDING_COUNT or self._bytes + len(data) > PENDING_BYTES
        if full and self._pending:
            self._dropped.inc()
            log.error("a request is dropped: its handler is too slow", subject=self.subject)
            return
        try:
            name, reply_to = subject.decode(), reply.decode()
        except UnicodeDecodeError:
            # The server passes on any bytes. There is no way to answer to such a subject.
            self._dropped.inc()
            log.error("a request is dropped: its reply subject is no UTF-8", subject=self.subject)
            return
        request = NatsRequest(name, bytes(data), bytes(raw or b""), reply_to, self._answer)
        self._pending.append(request)
        self._bytes += len(request.data)
        self._arrived.set()

    async def run(self) -> None:
        try:
            while True:
                while self._pending:
                    request = self._pending.popleft()
                    self._bytes -= len(request.data)
                    await self._handle(request)
                self._arrived.clear()
                await self._arrived.wait()
        finally:
            self._withdraw(self)

    def _fail(self) -> None:
        self.errors += 1
        self._failed.inc()

    async def _handle(self, request: NatsRequest) -> None:
        self.requests += 1
        try:
            with cancellable():
                await self._handler(request)
        except TidelogError as error:
            # A handler of protobuf bodies answers its errors itself; this is the JSON form.
            self._fail()
            log.warning("a request was not handled", subject=request.subject, error=str(error))
            request.respond(encode_error(error))
        except Exception:
            self._fail()
            log.exception("a handler raised", subject=request.subject)

    async def close(self) -> None:
        """No more calls of the handler; what waited is left unanswered."""
        self._withdraw(self)
        if self.task is not None and self.task is not asyncio.current_task():
            self.task.cancel()
            _, running = await asyncio.wait([self.task], timeout=CLOSE_S)
            if running:
                log.error("a handler does not end", subject=self.subject)
