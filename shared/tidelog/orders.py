"""An operator's order in the node's directory: it holds over a crash of the node and the registry.

`order.json`: {"order": {"action", "number"}, "left"}. `left`: the node was told that it is offline,
so the order is done: the next start is that of a new node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from tidelog.failpoints import hit
from tidelog.messages import Order
from tidelog.ports import Disk
from tidelog.sealed import read_sealed, seal

ORDER_FILE = "order.json"
UNREADABLE = "delete it: the registry knows the order, too; `tidelog nodes --json` shows it"

WriteFile = Callable[[str, bytes], Awaitable[None]]


class KeptOrder(msgspec.Struct, frozen=True):
    order: Order = Order()
    left: bool = False

    @property
    def standing(self) -> Order:
        """What to announce: the number, and the action if there is still something to do."""
        return Order("", self.order.number) if self.left else self.order

    @property
    def stops_work(self) -> bool:
        """A node that starts must not begin to work before the registry told it to."""
        return self.standing.action in ("pause", "offline")


def read_order(disk: Disk) -> KeptOrder:
    """Raises Corrupt."""
    return read_sealed(disk, ORDER_FILE, KeptOrder, UNREADABLE) or KeptOrder()


async def write_order(write_file: WriteFile, kept: KeptOrder) -> None:
    """Durable when it returns. Raises DiskFull, IoFailed."""
    hit("node.order.before_write")
    await write_file(ORDER_FILE, seal(kept))
