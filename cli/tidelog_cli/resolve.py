"""`tidelog resolve`: an operator's verdict on an open Prewrite, or on a late Commit (I2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from tidelog import messages, subjects
from tidelog.errors import BadInput, Refused, TidelogError, Unavailable
from tidelog.ports import Bus
from tidelog.positions import of_kind
from tidelog.pump_control import ControlRequest, Inspected
from tidelog.timestamps import TS_MAX
from tidelog_cli.connect import TIMEOUT_S, nodes_soon

OPEN, UNPAIRED = "open", "unpaired"
ROLLBACK, COMMIT, ACCEPT = "rollback", "commit", "accept"


class Resolution(msgspec.Struct, frozen=True):
    """The documented JSON form: what each Pump that was concerned says afterwards."""

    start_ts: int
    verdict: str
    commit_ts: int
    pumps: dict[str, Inspected]


def choose(commit: int | None, *, rollback: bool, accept: bool) -> str:
    """Exactly one verdict. Raises BadInput."""
    given = [COMMIT] * (commit is not None) + [ROLLBACK] * rollback + [ACCEPT] * accept
    if len(given) != 1:
        raise BadInput("say one verdict", hint="--commit TS, --rollback or --accept")
    if commit is not None and not 0 < commit <= TS_MAX:  # 0 would be a rollback to the Pump
        raise BadInput(
            f"--commit {commit} is no commit_ts", hint="--rollback, if it never committed"
        )
    return given[0]


async def ask(bus: Bus, cluster: str, node: str, request: ControlRequest) -> Inspected:
    subject = subjects.pump(cluster, node, "control")
    answer = await bus.request(subject, messages.encode(request), timeout_s=TIMEOUT_S)
    return messages.decode_reply(answer.data, Inspected)


async def look(bus: Bus, cluster: str, start_ts: int) -> tuple[dict[str, Inspected], list[str]]:
    """What each Pump says of a transaction, and which of them do not answer."""
    pumps = of_kind(await nodes_soon(bus, cluster), messages.PUMP)
    names = [p.nodeId for p in pumps if p.isAlive or p.state != messages.OFFLINE]

    async def one(node: str) -> Inspected | None:
        try:
            return await ask(bus, cluster, node, ControlRequest("inspect", start_ts))
        except Unavailable:
            return None

    said = dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))
    found = {node: answer for node, answer in said.items() if answer is not None}
    return found, [node for node, answer in said.items() if answer is None]


def concerned(
    verdict: str, start_ts: int, found: dict[str, Inspected], silent: list[str]
) -> list[str]:
    """The Pumps that the verdict is for. Raises Refused, BadInput."""
    if verdict == ACCEPT:
        chosen = [node for node, said in found.items() if said.late]
        missing = f"transaction {start_ts} is late at no Pump that answers"
    else:
        chosen = [node for node, said in found.items() if said.state == OPEN]
        missing = f"transaction {start_ts} is open at no Pump that answers"
    if chosen:
        return chosen
    known = [
        f"{node}: {said.state}{f' at {said.commit_ts}' if said.commit_ts else ''}"
        for node, said in sorted(found.items())
        if said.state != "unknown"
    ]
    asleep = f"these do not answer: {', '.join(silent)}" if silent else ""
    if known:
        alone = any(said.late and said.state == UNPAIRED for said in found.values())
        hint = asleep or (f"--{ACCEPT} ends a Commit whose Prewrite nobody has" if alone else "")
        raise Refused(f"{missing} ({'; '.join(known)})", hint=hint)
    raise BadInput(missing, hint=asleep or "no Pump knows it: is it a start_ts?")


def question(verdict: str, start_ts: int, commit_ts: int, chosen: list[str]) -> str:
    where = ", ".join(chosen)
    if verdict == ACCEPT:
        return f"Let readers that are past transaction {start_ts} miss it ({where})?"
    if verdict == ROLLBACK:
        return f"Close transaction {start_ts} as rolled back at {where}? Its rows are then lost."
    return f"Close transaction {start_ts} as committed at {commit_ts} at {where}?"


async def resolve(
    bus: Bus,
    cluster: str,
    start_ts: int,
    verdict: str,
    commit_ts: int,
    confirm: Callable[[str], None],
) -> Resolution:
    """Give the verdict to every Pump that holds the transaction open (or late). `confirm` raises if
    the operator does not agree. Raises what the first Pump that refuses says."""
    found, silent = await look(bus, cluster, start_ts)
    chosen = concerned(verdict, start_ts, found, silent)
    confirm(question(verdict, start_ts, commit_ts, chosen))
    verb = ACCEPT if verdict == ACCEPT else "resolve"
    done: dict[str, Inspected] = {}
    for node in chosen:
        try:
            done[node] = await ask(bus, cluster, node, ControlRequest(verb, start_ts, commit_ts))
        except TidelogError as error:
            already = f" (done at {', '.join(done)})" if done else ""
            raise type(error)(f"{node}: {error.message}{already}", hint=error.hint) from error
    return Resolution(start_ts, verdict, commit_ts, done)


def became(said: Inspected) -> str:
    """In words."""
    if said.state == "committed":
        return f"is committed at {said.commit_ts}"
    return f"is {said.state.replace('_', ' ')}"
