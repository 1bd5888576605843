"""What the Pump says of itself with each heartbeat, and who is told what the registry says."""

from __future__ import annotations

from tidelog.actor import Ref
from tidelog.messages import PUMP, Heartbeat, NodeStatus
from tidelog.ports import IndexStore
from tidelog_pump.identity import Identity
from tidelog_pump.indexer import unpaired
from tidelog_pump.puller import PullerMessage, ReadFeeds
from tidelog_pump.sorter_actor import AwaitResolved, Late, ListLate, Resolved, SorterMessage
from tidelog_pump.writer import SetState, WriterMessage


class Announcer:
    def __init__(
        self,
        identity: Identity,
        host: str,
        store: IndexStore,
        sorter: Ref[SorterMessage],
        writer: Ref[WriterMessage],
        puller: Ref[PullerMessage],
    ) -> None:
        self._identity = identity
        self._host = host
        self._store = store
        self._sorter = sorter
        self._writer = writer
        self._puller = puller

    async def describe(self) -> Heartbeat:
        now: Resolved = await self._sorter.ask(lambda reply: AwaitResolved(-1, 0, reply))
        late: list[Late] = await self._sorter.ask(ListLate)
        node = NodeStatus(
            nodeId=self._identity.node,
            host=self._host or self._identity.address,
            maxCommitTS=now.max_commit_ts,
            kind=PUMP,
            epoch=self._identity.epoch,
            highTS=now.high_ts,
            resolvedTS=now.resolved_ts,
            detail=complaints(self._store, late),
        )
        return Heartbeat(node, feeds=await self._puller.ask(ReadFeeds))

    async def on_state(self, state: str, safe_point: int) -> None:
        await self._writer.tell(SetState(state))


def complaints(store: IndexStore, late: list[Late]) -> dict[str, str]:
    """What an operator should know, for `tidelog status`."""
    found: dict[str, str] = {}
    for start_ts, commit_ts, at in unpaired(store, 1):
        found["unpaired"] = (
            f"Commit {commit_ts} of {start_ts} has no Prewrite here "
            f"(segment {at.fid} at {at.offset}), see indexer in /status"
        )
    if late:
        last = late[-1]
        where = f" (segment {last.at[0]} at {last.at[1]})" if last.at else ""
        found["unverified"] = (
            f"Commit {last.commit_ts} of {last.start_ts} came at or below resolved_ts{where}: "
            "a second copy, if another Pump has it; see sorter in /status"
        )
    return found
