"""A connection of the console, of somebody who may never say what he wants."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

ASK_S = 10.0
"""A request is whole by then. uvicorn waits for ever, and such a connection counts as others do: a
few dozen of them, and nobody sees the page."""


class AskingProtocol(H11Protocol):
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._patience = self.loop.call_later(ASK_S, self._look)

    def _look(self) -> None:
        """uvicorn's own timer runs from an answer to the next request's first byte."""
        is_answered = self.cycle is not None and not self.cycle.response_complete
        if is_answered or self.timeout_keep_alive_task is not None:
            self._wait()
        else:
            self.transport.close()
