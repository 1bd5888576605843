"""`tidelog pause`, `resume`, `offline`: an operator's wish, and the wait until it has come true."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Sequence

import msgspec

from tidelog import ask_registry
from tidelog.errors import BadInput, Conflict, DeadlineExceeded, NotFound, Unavailable
from tidelog.messages import (
    KINDS,
    OFFLINE,
    ONLINE,
    PAUSED,
    PUMP,
    Nodes,
    NodeStatus,
    StateReply,
    StateRequest,
)
from tidelog.ports import Bus
from tidelog.printable import printable
from tidelog_cli.connect import TIMEOUT_S, nodes, nodes_soon
from tidelog_cli.terminal import patience

PAUSE, RESUME, TAKE_OFFLINE = "pause", "resume", "offline"
GOALS = {PAUSE: PAUSED, RESUME: ONLINE, TAKE_OFFLINE: OFFLINE}
POLL_S = 0.2
LISTED = "`tidelog nodes --all` lists them"
FORGOTTEN_S = 8.0
"""Absent for longer than a lease, a reader is really gone, and no registry is just starting."""


class Operated(msgspec.Struct, frozen=True):
    """The documented JSON form. `may_lose`: what nobody will read any more, a sentence each."""

    node: str
    kind: str
    action: str
    state: str
    may_lose: list[str]


class Wish(msgspec.Struct, frozen=True):
    node: str
    action: str
    kind: str = ""
    accept_loss: bool = False


def choose(found: Nodes, wish: Wish) -> NodeStatus:
    """Whom it is about. Raises NotFound, BadInput (several have that name)."""
    if wish.kind not in ("", *KINDS):
        raise BadInput(f"nothing is of kind {wish.kind!r}", hint=f"one of {', '.join(KINDS)}")
    named = [n for n in found.nodes if n.nodeId == wish.node]
    chosen = [n for n in named if wish.kind in ("", n.kind)]
    if not chosen:
        kinds = ", ".join(n.kind for n in named)
        near = f"{wish.node!r} is a {kinds}" if named else _nearest(found, wish.node)
        raise NotFound(f"no {wish.kind or 'node'} {wish.node!r} is registered", hint=near)
    if len(chosen) > 1:
        kinds = " or ".join(sorted(n.kind for n in chosen))
        raise BadInput(f"several nodes are called {wish.node!r}", hint=f"--kind {kinds}")
    return chosen[0]


def _nearest(found: Nodes, name: str) -> str:
    near = difflib.get_close_matches(name, [n.nodeId for n in found.nodes], n=1)
    return f"{near[0]!r}, perhaps; {LISTED}" if near else LISTED


def has_come_true(node: NodeStatus, action: str) -> bool:
    """Raises Conflict if somebody else wished otherwise meanwhile."""
    if node.state == GOALS[action]:
        return action != RESUME or node.isAlive
    if node.order.action == action:
        return False
    raise Conflict(
        f"{node.nodeId} is {node.state}, and {action} is no longer what was asked of it last",
        hint="somebody else asked otherwise, or it was started anew: look at `tidelog nodes`",
    )


def progress(node: NodeStatus) -> str:
    """Where it is, and why it is not further."""
    mark = "" if node.isAlive else ", unreachable"
    said = printable("; ".join(f"{what}: {text}" for what, text in sorted(node.detail.items())))
    return f"{printable(node.nodeId)} is {node.state}{mark}" + (f": {said}" if said else "")


async def ask(
    bus: Bus, cluster: str, wish: Wish, confirm: Callable[[Sequence[str], str], None]
) -> StateReply:
    """Ask the registry. `confirm` gets what may be lost and a question, and raises if nobody
    agrees. Raises NotFound, BadInput, what the registry refuses with, Unavailable."""
    node = choose(await nodes_soon(bus, cluster), wish)
    request = StateRequest(wish.node, wish.action, wish.accept_loss, kind=node.kind)
    if wish.accept_loss:
        rehearsed = await _request(bus, cluster, msgspec.structs.replace(request, dry_run=True))
        if rehearsed.may_lose or node.state != OFFLINE:
            confirm(rehearsed.may_lose, f"Take {node.kind} {node.nodeId} offline for good?")
    return await _request(bus, cluster, request)


async def _request(bus: Bus, cluster: str, request: StateRequest) -> StateReply:
    with patience(f"the registry of cluster {cluster!r}"):
        return await ask_registry.ask(
            bus, cluster, "state", request, StateReply, timeout_s=TIMEOUT_S
        )


async def come_true(
    bus: Bus,
    cluster: str,
    wish: Wish,
    answer: StateReply,
    timeout_s: float,
    on_wait: Callable[[str], None],
) -> Operated:
    """Wait for the state; `on_wait` is told why, again and again. Raises Conflict,
    DeadlineExceeded (the wish stands)."""
    try:
        async with asyncio.timeout(timeout_s):
            state = await _until(bus, cluster, wish.action, answer.status, on_wait)
    except TimeoutError:
        raise DeadlineExceeded(
            f"{wish.action} of {wish.node} has not come true within {timeout_s:g} s",
            hint="the wish stands: see `tidelog nodes` for what it waits for, or ask again",
        ) from None
    return Operated(wish.node, answer.status.kind, wish.action, state, answer.may_lose)


async def _until(
    bus: Bus, cluster: str, action: str, node: NodeStatus, on_wait: Callable[[str], None]
) -> str:
    loop = asyncio.get_running_loop()
    seen_at, silence = loop.time(), ""
    while not has_come_true(node, action):
        on_wait(silence or progress(node))
        await asyncio.sleep(POLL_S)
        try:
            found, silence = (await nodes(bus, cluster)).nodes, ""
        except Unavailable as error:
            seen_at, silence = loop.time(), error.message
            continue
        here = [n for n in found if (n.kind, n.nodeId) == (node.kind, node.nodeId)]
        if here:
            node, seen_at = here[0], loop.time()
        elif loop.time() - seen_at > FORGOTTEN_S and action == TAKE_OFFLINE and node.kind != PUMP:
            return OFFLINE
    return node.state
