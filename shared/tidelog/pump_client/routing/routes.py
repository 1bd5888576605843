"""Where the Prewrites of open transactions went. Pure."""

from __future__ import annotations

from collections import OrderedDict

from tidelog.errors import TidelogError
from tidelog.pump_client.metrics import FORGOTTEN

MAX_ROUTES = 1 << 18


class Route:
    """`pump` acked the Prewrite, "" = nobody yet; `tried` are those it was sent to, in order.
    `in_doubt`: one of them may hold it though it did not ack. `said`: each one's last error."""

    __slots__ = ("in_doubt", "pump", "said", "tried")

    def __init__(self) -> None:
        self.pump = ""
        self.tried: list[str] = []
        self.in_doubt = False
        self.said: dict[str, TidelogError] | None = None

    def others(self) -> list[str]:
        """Who may hold a copy beside the one that acked."""
        return [node for node in self.tried if node != self.pump]

    def failed(self, node: str, error: TidelogError) -> None:
        if self.said is None:
            self.said = {}
        self.said[node] = error.with_traceback(None)


class Routes:
    """start_ts -> Route of transactions neither committed nor rolled back; the oldest are dropped,
    counted, when applications leave too many open."""

    def __init__(self, limit: int = MAX_ROUTES) -> None:
        self._limit = limit
        self._routes: OrderedDict[int, Route] = OrderedDict()

    def __len__(self) -> int:
        return len(self._routes)

    def open(self, start_ts: int) -> Route:
        """The route of a transaction, made if there is none."""
        route = self._routes.get(start_ts)
        if route is None:
            if len(self._routes) >= self._limit:
                self._routes.popitem(last=False)
                FORGOTTEN.inc()
            route = self._routes[start_ts] = Route()
        return route

    def close(self, start_ts: int) -> Route | None:
        """Take a route out."""
        return self._routes.pop(start_ts, None)

    def get(self, start_ts: int) -> Route | None:
        return self._routes.get(start_ts)
