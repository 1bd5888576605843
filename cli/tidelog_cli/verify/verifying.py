"""`tidelog verify`: waits until the downstream stands where it should, and compares."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol

import msgspec
from rich.text import Text

from tidelog.downstream import Checkpoint
from tidelog.errors import BadInput, DeadlineExceeded, NotFound, TidelogError
from tidelog.messages import APPLIER, ONLINE
from tidelog.ports import Bus
from tidelog.positions import of_kind
from tidelog_cli import operate
from tidelog_cli.connect import nodes_soon
from tidelog_cli.ending import to_its_end
from tidelog_cli.operate import Wish
from tidelog_cli.terminal import say
from tidelog_cli.verify.comparing import Comparison, Limits
from tidelog_cli.verify.dump_cells import DumpCells
from tidelog_cli.verify.mysql_side import MysqlSide
from tidelog_cli.verify.place import Place
from tidelog_cli.verify.report import EQUAL, Report, TableResult
from tidelog_cli.verify.scanned_side import ScannedSide
from tidelog_cli.verify.sides import Side
from tidelog_cli.verify.sqlite_cells import SqliteCells
from tidelog_cli.verify.tables import Choice, Plan, plans

POLL_S = 0.2
CHECKPOINT_TABLE = "tidb_binlog.checkpoint"


class Asked(msgspec.Struct, frozen=True):
    """What to compare. `commit_ts` 0: where the downstream stands. `feed` "": its only one."""

    source: str
    downstream: str
    commit_ts: int = 0
    feed: str = ""
    tables: Sequence[str] = ()
    maps: Sequence[str] = ()
    limits: Limits = Limits()
    timeout_s: float = 60.0
    checkpoint_table: str = CHECKPOINT_TABLE


class Watching(Protocol):
    """Whoever waits for the result is told how it goes."""

    def waits(self, why: str) -> None: ...

    def begins(self, tables: int, rows: int) -> None: ...

    def rows(self, count: int) -> None: ...

    def compared(self, result: TableResult) -> None: ...


Hold = Callable[[int], AbstractAsyncContextManager[None]]
"""What keeps the downstream as it is, once it holds everything up to a commit_ts."""


async def verify(asked: Asked, watching: Watching, hold: Hold | None = None) -> Report:
    """Raises ConfigError, BadInput, Unavailable, DeadlineExceeded, and what `hold` does."""
    choice = Choice(asked.tables, asked.maps)
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(_opened(asked.source, "source", asked))
        downstream = await stack.enter_async_context(_opened(asked.downstream, "downstream", asked))
        least = max(asked.commit_ts, _dumped(source))
        if hold is not None:
            await stack.enter_async_context(hold(least))
        checkpoint = await _standing(downstream, asked, least, watching)
        await source.side.fix(checkpoint.commit_ts if checkpoint is not None else asked.commit_ts)
        found = plans(await source.side.tables(), await downstream.side.tables(), choice)
        results = await _compared((source.side, downstream.side), found, asked.limits, watching)
    equal = all(one.result == EQUAL for one in results)
    return Report(
        equal,
        source.side.shown,
        source.side.moment,
        downstream.side.shown,
        downstream.side.moment,
        checkpoint.commit_ts if checkpoint is not None else 0,
        [] if equal else _notes(source.side, checkpoint),
        results,
    )


class _Opened(msgspec.Struct):
    side: Side
    dump: DumpCells | None = None


def _dumped(source: _Opened) -> int:
    """A dump says by itself what the downstream must hold."""
    return source.dump.commit_ts if source.dump is not None else 0


@asynccontextmanager
async def _opened(url: str, what: str, asked: Asked) -> AsyncIterator[_Opened]:
    place = Place.parse(url, what)
    if place.scheme == "mysql":
        opened = _Opened(await MysqlSide.connect(place, asked.checkpoint_table))
    elif place.scheme == "dump":
        dump = DumpCells(place.path, place.shown)
        opened = _Opened(ScannedSide(dump), dump)
    else:
        cells = SqliteCells(place.path, place.shown, asked.checkpoint_table)
        opened = _Opened(ScannedSide(cells))
    try:
        yield opened
    finally:
        await opened.side.close()


async def _standing(
    downstream: _Opened, asked: Asked, least: int, watching: Watching
) -> Checkpoint | None:
    """Fix the downstream at a moment whose checkpoint is at `least` or above. None: it tells no
    position, and none was asked for."""
    side = downstream.side
    checkpoint: Checkpoint | None = None
    try:
        async with asyncio.timeout(asked.timeout_s):
            while True:
                await side.fix(0)
                checkpoint = _chosen(await side.checkpoints(), asked.feed)
                if checkpoint is None or checkpoint.commit_ts >= least:
                    break
                watching.waits(f"{side.shown} stands at {checkpoint.commit_ts}, not yet {least}")
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        at = checkpoint.commit_ts if checkpoint is not None else 0
        raise DeadlineExceeded(
            f"{side.shown} stands at {at}, not yet {least}",
            hint="`tidelog status` shows who is waited for",
        ) from None
    if checkpoint is None and asked.commit_ts:
        raise BadInput(
            f"{side.shown} has no checkpoint in {asked.checkpoint_table}",
            hint="leave out --commit-ts to compare it as it is, or name --checkpoint-table",
        )
    return checkpoint


def _chosen(found: Sequence[Checkpoint], feed: str) -> Checkpoint | None:
    mine = [one for one in found if feed in ("", one.feed)]
    if len(mine) > 1:
        feeds = ", ".join(sorted(one.feed for one in mine))
        raise BadInput(f"the downstream holds several feeds: {feeds}", hint="--feed NAME")
    return mine[0] if mine else None


async def _compared(
    sides: tuple[Side, Side], found: Sequence[Plan], limits: Limits, watching: Watching
) -> list[TableResult]:
    watching.begins(len(found), sum(plan.rows for plan in found))
    results = []
    for plan in found:
        result = await Comparison(sides, plan, limits, watching.rows).run()
        watching.compared(result)
        results.append(result)
    return results


def _notes(source: Side, checkpoint: Checkpoint | None) -> list[str]:
    """Why a difference may be none."""
    notes = []
    if "commit_ts" not in source.moment:
        notes.append(
            "the source was read as it is now: what was written after the downstream's commit_ts"
            " shows as a difference, so stop the writers and compare again"
        )
    if checkpoint is not None and not checkpoint.consistent:
        notes.append(
            "the Applier was writing: rows beyond its checkpoint may be there; --pause holds it"
        )
    return notes


@asynccontextmanager
async def held(
    bus: Bus, cluster: str, feed: str, timeout_s: float, watching: Watching
) -> AsyncIterator[None]:
    """The feed's Applier stands still meanwhile. One that an operator paused stays so. Raises
    NotFound, Conflict, DeadlineExceeded."""
    found = of_kind(await nodes_soon(bus, cluster), APPLIER)
    mine = [node for node in found if node.feed == feed and node.isAlive]
    if not mine:
        raise NotFound(f"no Applier of feed {feed!r} runs", hint="see `tidelog nodes`")
    moving = [node.nodeId for node in mine if node.state == ONLINE]

    async def order(node: str, action: str) -> None:
        wish = Wish(node, action, APPLIER)
        answer = await operate.ask(bus, cluster, wish, lambda _lost, _question: None)
        await operate.come_true(bus, cluster, wish, answer, timeout_s, watching.waits)

    try:
        for node in moving:
            await order(node, operate.PAUSE)
        yield
    finally:
        await to_its_end(_all_resumed(moving, order))


async def _all_resumed(nodes: Sequence[str], order: Callable[[str, str], Awaitable[None]]) -> None:
    """Each, though another can't be. Raises what kept the first from it, and says who stands still,
    also if it is ended at once."""
    standing, refused = list(nodes), list[TidelogError]()
    try:
        for node in nodes:
            try:
                await order(node, operate.RESUME)
            except TidelogError as error:
                refused.append(error)
            else:
                standing.remove(node)
    except BaseException:
        say(Text(_told_of(standing)))
        raise
    if refused:
        refused[0].hint = _told_of(standing)
        raise refused[0]


def _told_of(standing: Sequence[str]) -> str:
    return "; ".join(f"{node} stands still: `tidelog resume {node}`" for node in standing)
