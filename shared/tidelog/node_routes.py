"""What every service's admin HTTP server tells of the cluster, and an operator's wishes: the
original's paths (original.md A.3, A.5). Nothing is decided here: the registry is asked."""

from __future__ import annotations

from typing import Any

from tidelog import ask_registry
from tidelog.errors import NotFound, Refused
from tidelog.messages import KINDS, ErrorReply, StateReply, StateRequest
from tidelog.node_form import node_forms
from tidelog.ports import Bus
from tidelog.routes import Answer, Handler
from tidelog.supervisor import Supervisor

REGISTRY_S = 5.0
ACTIONS = {"pause": "pause", "resume": "resume", "offline": "offline", "close": "offline"}
"""What the path says (`close` is the original's) -> what the registry is asked for."""


def add(tree: Supervisor, bus: Bus, cluster: str) -> None:
    """A path that the service has already stays its own."""
    tree.route("PUT", "/state/{node}/{action}", _operate(bus, cluster), admin=True)
    tree.route("GET", "/nodes", _list(bus, cluster, ""))
    for kind in KINDS:
        tree.route("GET", f"/{kind}s", _list(bus, cluster, kind))


def _operate(bus: Bus, cluster: str) -> Handler:
    async def handle(given: dict[str, str]) -> Any:
        if given["action"] not in ACTIONS:
            known = ", ".join(ACTIONS)
            raise NotFound(f"nothing is called {given['action'][:40]!r}", hint=f"one of {known}")
        wish = StateRequest(given["node"], ACTIONS[given["action"]])
        try:
            return await ask_registry.ask(
                bus, cluster, "state", wish, StateReply, timeout_s=REGISTRY_S
            )
        except Refused as error:
            # By the node's state, not by ours: asking again at once changes nothing.
            return Answer(409, ErrorReply(type(error).__name__, error.message, error.hint))

    return handle


def _list(bus: Bus, cluster: str, kind: str) -> Handler:
    async def handle(_given: dict[str, str]) -> Any:
        found = await ask_registry.nodes(bus, cluster, timeout_s=REGISTRY_S)
        return {f"{kind or 'node'}s": node_forms(found, kind)}

    return handle
