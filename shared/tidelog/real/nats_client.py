"""nats-py's client, with messages handed over at once and its known ways to die closed.

Everything that reaches below nats-py's public interface is in this file: `_process_msg`,
`_process_err`, `_process_op_err`, `_process_pong`, `_process_connect_init`, `_connect_command`,
`_flush_pending` and the reconnection task. The integration tests of the bus fail if a release
changes one of them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import structlog
from nats import errors
from nats.aio.client import Client, Srv
from nats.aio.transport import TcpTransport

from tidelog.errors import ConfigError, TidelogError, Untrusted
from tidelog.real import bus_metrics as metrics
from tidelog.real.cancellable import cancellable

log = structlog.get_logger()

SYNC_S = 2
END_S = 2.0

Sink = Callable[[bytes, bytes, bytes, bytes], None]
"""Takes subject, reply, payload and raw headers of a message, all of them any bytes; must not raise
(the message is dropped), never waits."""


def parse_headers(raw: bytes) -> tuple[int, str, dict[str, str]]:
    """The inline status (0 if none), its description, and the headers. A later line wins."""
    if not raw:
        return 0, "", {}
    first, _, rest = bytes(raw).partition(b"\r\n")
    status = first[9:12].strip()
    headers: dict[str, str] = {}
    for line in rest.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon:
            headers[name.decode("utf-8", "replace")] = value.strip().decode("utf-8", "replace")
    description = first[13:].strip().decode("utf-8", "replace")
    return int(status) if status.isdigit() else 0, description, headers


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """An error that it tries again after comes without where it was: among those frames is one of
    `asyncio.wait_for`, which knows the task that ended with it. That is a cycle, with streams and
    all, for each attempt to connect."""
    try:
        with cancellable():
            await work
    except (OSError, errors.Error) as error:
        error.__traceback__ = None
        raise


def header_bytes(headers: Mapping[str, str]) -> int:
    """What `headers` take on the wire; the server counts them against its max_payload."""
    if not headers:
        return 0
    return 14 + sum(len(name.encode()) + len(value.encode()) + 4 for name, value in headers.items())


class SinkClient(Client):
    """A client whose subscriptions are served by synchronous sinks, not by queues and tasks."""

    def __init__(
        self,
        refused: Callable[[TidelogError], None],
        denied: Callable[[str], None],
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """`refused`: the server can't be connected to any more, however often it is tried; it is
        not. `denied`: gets the server's words on a subject. `tls`: a fresh context for each
        connection, so that new certificates are seen; with it, none is made without TLS."""
        super().__init__()
        self._sinks: dict[int, Sink] = {}
        self._refused = refused
        self._denied = denied
        self._tls = tls
        self._connecting: asyncio.Task[Any] | None = None
        """Who made the connection, or tries to."""

    async def subscribe_sink(self, subject: str, queue: str, sink: Sink) -> int:
        """Subscribe; returns the subscription's number. Replayed at every reconnect."""
        subscription = await self.subscribe(subject, queue=queue)
        number: int = subscription._id
        self._sinks[number] = sink
        return number

    async def unsubscribe_sink(self, number: int) -> None:
        self._sinks.pop(number, None)
        subscription = self._subs.get(number)
        if subscription is not None and not (self.is_closed or self.is_draining):
            await subscription.unsubscribe()

    async def sync(self) -> None:
        """Wait until the server has read all that was written before. nats-py's own `flush` lets
        its PING overtake what is still in its buffer. Raises nats-py's errors."""
        try:
            await self._flush_pending(force_flush=True)
            with cancellable():
                await self.flush(SYNC_S)
        except (RuntimeError, AssertionError) as error:
            # The connection is gone, and nobody has read of it yet.
            raise errors.StaleConnectionError from error

    def forget_unsent(self) -> None:
        """Drop what was written for a connection that is gone: it would be sent out of time, after
        its sender was told that the outcome is unknown."""
        self._pending = []
        self._pending_data_size = 0

    def drop_attempt(self) -> bool:
        """To connect, which failed, by who made it: nats-py would wait for its end, which after a
        failed handshake nobody tells. Another one's error is of an earlier connection: it ends
        nothing, and says nothing of the one that is being made."""
        if asyncio.current_task() is not self._connecting:
            return False
        self._drop()
        return True

    def _drop(self) -> None:
        self._cut()
        self._transport = None

    async def end(self) -> None:
        """Close, and see that a reconnection under way really ends, also if this is cancelled: it
        would open a connection that nobody closes. A server that takes nothing more is cut off
        after END_S: nats-py would wait for it to take the rest; where it stands still in a
        handshake, for ever."""
        cut = asyncio.get_running_loop().call_later(END_S, self._cut)
        try:
            async with asyncio.timeout(2 * END_S):
                with cancellable():
                    await self.close()
        except (OSError, RuntimeError) as error:
            log.debug("NATS connection", error=str(error))
        finally:
            cut.cancel()
            try:
                await self._end_reconnecting()
            finally:
                # Of a reconnection that ended in the moment that it succeeded in.
                self._status = Client.CLOSED
                self._end_tasks()
                self._cut()

    async def _end_reconnecting(self) -> None:
        task = self._reconnection_task
        for _ in range(20):
            if task is None or task.done():
                break
            task.cancel()
            await asyncio.wait([task], timeout=0.1)

    def _end_tasks(self) -> None:
        for task in (self._reading_task, self._ping_interval_task, self._flusher_task):
            if task is not None:
                task.cancel()

    def _cut(self) -> None:
        """At once: TLS that is closed waits for the other side's goodbye, and its socket would
        outlive the loop of a process that ends meanwhile."""
        transport: Any = self._transport
        if not transport:
            return
        if isinstance(self._transport, TcpTransport):
            transport._io_writer.transport.abort()
        else:
            transport.close()

    async def revive(self) -> None:
        """Start reconnecting again if nats-py's own task for it died of an unforeseen error: also
        in the midst of a new connection, for which its state says "connecting" from then on."""
        task = self._reconnection_task
        if (self.is_reconnecting or self.is_connecting) and (task is None or task.done()):
            if task is not None and not task.cancelled():
                log.warning(
                    "reconnecting broke off, and is begun anew", error=repr(task.exception())
                )
            self._status = Client.RECONNECTING
            self._reconnection_task = asyncio.get_running_loop().create_task(
                self._attempt_reconnect()
            )
        elif self.is_connected and (self._reading_task is None or self._reading_task.done()):
            await self._process_op_err(errors.StaleConnectionError())

    async def _flush_pending(self, force_flush: bool = False) -> Any:
        """nats-py's callers write by themselves where the task for it has died, and what that meets
        would be theirs. It is the loss of the connection; or of the one that is being made, whose
        task tries again."""
        try:
            if not force_flush:
                return await super()._flush_pending()
            with cancellable():
                return await super()._flush_pending(force_flush)
        except (OSError, RuntimeError) as error:
            if asyncio.current_task() is self._reconnection_task:
                raise ConnectionResetError(str(error)) from error
            await self._process_op_err(error)

    async def _connect_to_server(self, s: Srv) -> None:
        """nats-py forgets to close what a failed attempt to connect had opened, to end the tasks of
        it, and half a message that it had read."""
        self._connecting = asyncio.current_task()
        self._cut()
        self._ps.reset()
        self._end_tasks()
        if self._tls is not None:
            try:
                self.options["tls"] = self._tls()
            except ConfigError as error:
                log.error("the certificates stay as they were", error=error.message)
        await _to_its_end(super()._connect_to_server(s))

    async def _process_connect_init(self) -> None:
        """What comes of a connection that is gone between its first words is not always an OSError
        (uvloop's word for it, half a line, a handshake's protocol that is there no more), and so,
        for nats-py, nothing after which it would try again."""
        try:
            await _to_its_end(super()._process_connect_init())
        except OSError:
            raise  # a certificate that is refused is a ValueError, too
        except (RuntimeError, ValueError, AttributeError) as error:
            raise ConnectionResetError(str(error)) from error.with_traceback(None)

    def _connect_command(self) -> bytes:
        """nats-py goes on in the clear with a server that offers no TLS, with our proof of who we
        are. Raises Untrusted."""
        if self._tls is not None and not self._server_info.get("tls_required"):
            raise Untrusted(
                "the NATS server offers no TLS, and nats-ca wants it",
                hint="give the server a tls block, or take nats-ca away",
            )
        if self._server_info.get("tls_required") and self._transport is not None:
            # asyncio would warn at the end of each connection: nats-py makes the protocol itself.
            transport: Any = self._transport
            transport._io_writer.transport.get_protocol()._over_ssl = True
        command: bytes = super()._connect_command()
        return command

    async def _attempt_reconnect(self) -> None:
        """nats-py would first wait for the old connection's end, and say nothing of the loss until
        then: a server that stands still takes its time, or for ever."""
        self._drop()
        try:
            await super()._attempt_reconnect()
        except TidelogError as error:
            self._refused(error)

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        sink = self._sinks.get(sid)
        if sink is None:
            return
        try:
            sink(subject, reply, data, headers)
        except Exception:
            # It would end the read loop, and with it the connection for all the others.
            metrics.sink_errors.inc()
            log.exception("a message is dropped: what takes it raised", subject=repr(subject))

    async def _process_op_err(self, e: Exception) -> None:
        """The stream that was lost keeps its error, and the error where it was, which is there: a
        cycle for each connection."""
        e.__traceback__ = None
        await super()._process_op_err(e)

    async def _process_err(self, err_msg: str) -> None:
        """nats-py closes for good at any `-ERR`; all but a refused subject are mere losses."""
        if "permissions violation" in err_msg:
            self._denied(err_msg.strip("'"))
        elif "invalid subject" in err_msg:
            await self._error_cb(errors.Error(f"nats: {err_msg}"))
        else:
            log.warning("the NATS server ends the connection", reason=err_msg.strip("'"))
            await self._process_op_err(errors.Error(f"nats: {err_msg}"))

    async def _process_pong(self) -> None:
        """nats-py sets the result of a flush that timed out, and its read loop dies of it."""
        if self._pongs:
            future = self._pongs.pop(0)
            if not future.done():
                future.set_result(True)
        self._pongs_received += 1
        self._pings_outstanding = 0
