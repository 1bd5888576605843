"""Frames of one Pump back into whole transactions. Pure.

A transaction that does not fit a frame comes in pieces, continued by (commit_ts, offset); every
payload is checked against its crc32c (transport.proto).
"""

from __future__ import annotations

from crc32c import crc32c

from tidelog.errors import Corrupt
from tidelog_drainer.merger import Txn
from tidelog_proto.transport_pb2 import PulledTxn, PullFrame, PullRequest


class Inbound:
    """The reading position in one Pump: everything up to `after_ts`, and perhaps a piece more."""

    def __init__(self, node: str, after_ts: int) -> None:
        self.node = node
        self.after_ts = after_ts
        self._pieces = bytearray()
        self._cut: PulledTxn | None = None

    def ask(self, feed: str, max_bytes: int, wait_ms: int) -> PullRequest:
        """The next request of the long poll."""
        request = PullRequest(
            after_ts=self.after_ts, max_bytes=max_bytes, wait_ms=wait_ms, feed=feed
        )
        if self._cut is not None:
            request.commit_ts = self._cut.commit_ts
            request.offset = len(self._pieces)
        return request

    def take(self, frame: PullFrame) -> tuple[list[Txn], int]:
        """The whole transactions of a frame, and their bytes.

        Raises Corrupt when a payload is not what the Pump's checksum says.
        """
        out: list[Txn] = []
        size = 0
        for piece in frame.txns:
            payload = piece.payload
            if piece.offset or len(payload) < piece.total or self._cut is not None:
                joined = self._join(piece)
                if joined is None:
                    continue
                payload = joined
            if crc32c(payload) != piece.crc:
                raise Corrupt(f"{self.node} sent transaction {piece.commit_ts} with a wrong crc")
            out.append((piece.commit_ts, piece.start_ts, payload))
            size += len(payload)
        if out:
            self.after_ts = out[-1][0]
        self.after_ts = max(self.after_ts, frame.resolved_ts)
        return out, size

    def _join(self, piece: PulledTxn) -> bytes | None:
        """Add a piece; the payload when it is the last. A piece that continues nothing we have
        begins the transaction anew from its start, or waits for a request that does."""
        cut = self._cut
        fits = cut is not None and (cut.commit_ts, cut.total, cut.crc) == (
            piece.commit_ts,
            piece.total,
            piece.crc,
        )
        if not fits or piece.offset != len(self._pieces):
            self.reset()
            if piece.offset:
                return None
        self._cut = piece
        self._pieces += piece.payload
        if len(self._pieces) < piece.total:
            return None
        payload = bytes(self._pieces)
        self.reset()
        return payload

    def reset(self) -> None:
        """Forget the pieces: the next request asks for the transaction from its start."""
        self._cut = None
        self._pieces = bytearray()
