"""An operator's order in the node's directory: it holds over a crash of the node and the registry.

`order.json`: {"order": {"action", "number"}, "left"}. `left`: the node was told that it is offline,
so the order is done: the next start is that of a new node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from tidelog.errors import Corrupt
from tidelog.failpoints import hit
from tidelog.messages import Order
from tidelog.ports import Disk
from tidelog.sealed import seal, unseal
from tidelog.unreadable import NOT_READABLE

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
    if not disk.exists(ORDER_FILE):
        return KeptOrder()
    try:
        return msgspec.json.decode(unseal(disk.read_file(ORDER_FILE)), type=KeptOrder)
    except NOT_READABLE as error:
        raise Corrupt(f"{ORDER_FILE} can't be read: {error}", hint=UNREADABLE) from error


async def write_order(write_file: WriteFile, kept: KeptOrder) -> None:
    """Durable when it returns. Raises DiskFull, IoFailed."""
    hit("node.order.before_write")
    await write_file(ORDER_FILE, seal(msgspec.json.encode(kept)))
