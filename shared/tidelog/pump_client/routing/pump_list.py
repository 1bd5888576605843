"""The Pumps a client knows: what the registry says, and what the client met itself. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.actor import Ref
from tidelog.errors import NoResponders, NotOnline, Overloaded, Refused, TidelogError, Unavailable
from tidelog.messages import OFFLINE, ONLINE, PUMP, NodeStatus
from tidelog.pump_client.delivery.send import Send
from tidelog.pump_client.delivery.way import Way
from tidelog.pump_client.errors import NotSent

PROBE_FIRST_S = 0.25
PROBE_MAX_S = 30.0
"""A.2: unusable Pumps are probed each 30 s; the first probes come sooner."""


class Pump:
    """One Pump. `healthy` is our own experience, `online` the registry's word. `score` and `labels`
    are what it announces. `way` and `lane`: how binlogs get there, None until there is one."""

    __slots__ = (
        "address",
        "alive",
        "failures",
        "healthy",
        "labels",
        "lane",
        "node",
        "probe_at",
        "score",
        "state",
        "way",
    )

    def __init__(self, node: str) -> None:
        self.node = node
        self.address = ""
        self.state = OFFLINE
        self.alive = False
        self.score = 0
        self.labels: Mapping[str, str] = {}
        self.healthy = True
        self.failures = 0
        self.probe_at = 0.0
        self.way: Way | None = None
        self.lane: Ref[Send] | None = None

    @property
    def online(self) -> bool:
        return self.state == ONLINE

    def learn(self, status: NodeStatus) -> None:
        """One that is back online, or alive again, is believed healthy."""
        if (status.state == ONLINE and not self.online) or (status.isAlive and not self.alive):
            self.healthy, self.failures = True, 0
        self.address, self.state, self.alive = status.host, status.state, status.isAlive
        self.score, self.labels = status.score, status.label or {}

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether it announces all of these."""
        return labels.items() <= self.labels.items()


class PumpList:
    """`available`: online, alive, and healthy as far as we know. `near`: those of them that have
    the client's labels; all of them if none has. `online`: the last resort. `settled`: as far as
    the registry knows, there are no others."""

    def __init__(self, labels: Mapping[str, str] | None = None) -> None:
        self._labels = labels or {}
        self.pumps: dict[str, Pump] = {}
        self.near: tuple[Pump, ...] = ()
        self.available: tuple[Pump, ...] = ()
        self.online: tuple[Pump, ...] = ()
        self.settled = False

    def learn(self, nodes: Iterable[NodeStatus], *, settled: bool) -> tuple[list[Pump], list[Pump]]:
        """Take the registry's list; returns who came and who went.

        Nobody goes while the registry has not settled: it may have lost its own state.
        """
        self.settled = settled
        came: list[Pump] = []
        present: set[str] = set()
        for status in nodes:
            if status.kind != PUMP:
                continue
            present.add(status.nodeId)
            pump = self.pumps.get(status.nodeId)
            if pump is None:
                pump = self.pumps[status.nodeId] = Pump(status.nodeId)
                came.append(pump)
            pump.learn(status)
        gone = [p for p in self.pumps.values() if p.node not in present] if settled else []
        for pump in gone:
            del self.pumps[pump.node]
        self.refresh()
        return came, gone

    def has_tombstone(self, node: str) -> bool:
        """It has left, with nothing open or its loss accepted; the registry lists it for ever."""
        pump = self.pumps.get(node)
        return self.settled and pump is not None and pump.state == OFFLINE

    def refresh(self) -> None:
        """Compute the lists again, sorted by node so that a hash means the same everywhere."""
        ready = sorted((p for p in self.pumps.values() if p.lane is not None), key=_by_node)
        self.online = tuple(p for p in ready if p.online)
        self.available = tuple(p for p in self.online if p.alive and p.healthy)
        self.near = tuple(p for p in self.available if p.has(self._labels)) or self.available

    def failed(self, pump: Pump, error: TidelogError, now: float) -> None:
        """A write failed. A Pump that refuses or is silent gets no Prewrites until a probe: we
        don't wait for the original's more than ten in a row, for a probe costs nothing."""
        if isinstance(error, NotSent | Overloaded):
            return
        if not isinstance(error, Refused | Unavailable | NotOnline | NoResponders):
            return
        if pump.healthy or now >= pump.probe_at:
            self.probe_failed(pump, now)
        if pump.healthy:
            pump.healthy = False
            self.refresh()

    def probe_failed(self, pump: Pump, now: float) -> None:
        """For whatever reason: the next probe comes later."""
        pump.probe_at = now + min(PROBE_FIRST_S * 2**pump.failures, PROBE_MAX_S)
        pump.failures = min(pump.failures + 1, 10)

    def succeeded(self, pump: Pump) -> None:
        """A binlog was acked."""
        pump.failures = 0
        if not pump.healthy:
            self.probed(pump)

    def probed(self, pump: Pump) -> None:
        """It answers: try it again. Its failures stay counted until a binlog is acked."""
        pump.healthy = True
        self.refresh()

    def due(self, now: float) -> list[Pump]:
        """Pumps to probe now."""
        return [p for p in self.online if not p.healthy and now >= p.probe_at]


def _by_node(pump: Pump) -> str:
    return pump.node
