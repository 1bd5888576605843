"""An operator's terminal: asks the registry on its subjects, and looks what became of it."""

from __future__ import annotations

from tidelog import messages, subjects
from tidelog.messages import Nodes, NodeStatus, StateReply, StateRequest
from tidelog.sim import World

ASK_S = 3.0


class Orders:
    """Errors are the registry's own, or Unavailable."""

    def __init__(self, world: World, cluster: str) -> None:
        self._bus = world.ports("operator").bus
        self._cluster = cluster

    async def nodes(self) -> Nodes:
        subject = subjects.registry(self._cluster, "nodes")
        answer = await self._bus.request(subject, b"{}", timeout_s=ASK_S)
        return messages.decode_reply(answer.data, Nodes)

    async def of(self, node: str) -> NodeStatus | None:
        """What the registry says of it, if it knows it."""
        found = {status.nodeId: status for status in (await self.nodes()).nodes}
        return found.get(node)

    async def operate(self, node: str, action: str, *, accept_loss: bool = False) -> StateReply:
        body = messages.encode(StateRequest(node, action, accept_loss))
        subject = subjects.registry(self._cluster, "state")
        answer = await self._bus.request(subject, body, timeout_s=ASK_S)
        return messages.decode_reply(answer.data, StateReply)
