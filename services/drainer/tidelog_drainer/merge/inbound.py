"""Frames of one Pump back into whole transactions. Pure, but for the file of a large one.

A transaction that does not fit a frame comes in pieces, continued by (commit_ts, offset); every
payload is checked against its crc32c (transport.proto).
"""

from __future__ import annotations

from crc32c import crc32c

from tidelog.errors import Corrupt
from tidelog_drainer.merge.merger import Txn
from tidelog_drainer.merge.spool import Spool, Spooled, Spooling
from tidelog_proto.transport_pb2 import PulledTxn, PullFrame, PullRequest


class Pieces:
    """The pieces of a transaction that memory holds."""

    def __init__(self) -> None:
        self.size = self.crc = 0
        self._bytes = bytearray()

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self.crc = crc32c(piece, self.crc)
        self._bytes += piece

    @property
    def payload(self) -> bytes:
        return bytes(self._bytes)


class Inbound:
    """The reading position in one Pump: everything up to `after_ts`, and perhaps a piece more."""

    def __init__(self, node: str, after_ts: int, spool: Spool | None = None) -> None:
        self.node = node
        self.after_ts = after_ts
        self._spool = spool
        self._cut: PulledTxn | None = None
        self._pieces: Pieces | Spooling = Pieces()
        self._unwritten: list[Spooling] = []

    def ask(self, feed: str, max_bytes: int, wait_ms: int) -> PullRequest:
        """The next request of the long poll."""
        request = PullRequest(
            after_ts=self.after_ts, max_bytes=max_bytes, wait_ms=wait_ms, feed=feed
        )
        if self._cut is not None:
            request.commit_ts = self._cut.commit_ts
            request.offset = self._pieces.size
        return request

    def take(self, frame: PullFrame) -> tuple[list[Txn], int]:
        """The whole transactions of a frame, and their bytes; large ones after `flush`.

        Raises Corrupt when a payload is not what the Pump's checksum says, or a piece continues
        nothing we have: then nothing of the frame counts, and `reset` begins from `after_ts` anew.
        """
        out: list[Txn] = []
        size = 0
        for piece in frame.txns:
            payload: bytes | Spooled = piece.payload
            if piece.offset or len(payload) < piece.total or self._cut is not None:
                joined = self._join(piece)
                if joined is None:
                    continue
                payload, crc = joined
            else:
                crc = crc32c(piece.payload)
            if crc != piece.crc:
                raise Corrupt(f"{self.node} sent transaction {piece.commit_ts} with a wrong crc")
            out.append((piece.commit_ts, piece.start_ts, payload))
            size += len(payload)
        if out:
            self.after_ts = out[-1][0]
        self.after_ts = max(self.after_ts, frame.resolved_ts)
        return out, size

    async def flush(self, before_ts: int) -> None:
        """Write what belongs into files. Raises SpoolFull: what was taken since the position
        `before_ts` must be thrown away, and comes again."""
        try:
            while self._unwritten:
                await self._unwritten[0].flush()
                del self._unwritten[0]
        except BaseException:
            self.after_ts = before_ts
            self.reset()
            raise

    def _join(self, piece: PulledTxn) -> tuple[bytes | Spooled, int] | None:
        """Add a piece; payload and crc when it is the last. Another one than the next begins its
        transaction anew if it is the start of the same. Raises Corrupt for any other: the frame's
        resolved_ts may lie above what then would be skipped."""
        cut = self._cut
        fits = cut is not None and (cut.commit_ts, cut.total, cut.crc) == (
            piece.commit_ts,
            piece.total,
            piece.crc,
        )
        if not fits or piece.offset != self._pieces.size:
            self._forget()
            if piece.offset or (cut is not None and cut.commit_ts != piece.commit_ts):
                raise Corrupt(
                    f"{self.node} sent transaction {piece.commit_ts} from offset {piece.offset} on,"
                    " which does not follow on what it sent before",
                    hint="it is asked again, from the start of the transaction",
                )
        if self._cut is None:
            self._cut = PulledTxn(commit_ts=piece.commit_ts, total=piece.total, crc=piece.crc)
            if self._spool is not None and piece.total > self._spool.above:
                self._pieces = Spooling(self._spool, piece.commit_ts, piece.total)
        pieces = self._pieces
        pieces.add(piece.payload)
        if isinstance(pieces, Spooling) and pieces not in self._unwritten:
            self._unwritten.append(pieces)
        if pieces.size < piece.total:
            return None
        self._cut, self._pieces = None, Pieces()
        return pieces.payload, pieces.crc

    def _forget(self) -> None:
        pieces = self._pieces
        if isinstance(pieces, Spooling):
            pieces.give_up()
            self._unwritten = [one for one in self._unwritten if one is not pieces]
        self._cut, self._pieces = None, Pieces()

    def reset(self) -> None:
        """Forget the pieces: the next request asks for the transaction from its start."""
        self._forget()
        for spooling in self._unwritten:
            spooling.give_up()
        self._unwritten = []

    @property
    def spooling(self) -> tuple[int, int, int] | None:
        """Of the large transaction on its way: commit_ts, bytes that are here, all bytes."""
        if self._cut is None or not isinstance(self._pieces, Spooling):
            return None
        return self._cut.commit_ts, self._pieces.size, self._cut.total
