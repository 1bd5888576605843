"""An Applier's backlog, replayed at once: the Applier is paused, lets its downstream go and reads
the stream into its relay log, a job writes that downstream, and the Applier begins from the
checkpoint that the job left."""

from __future__ import annotations

import asyncio
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from rich.text import Text

from tidelog import subjects
from tidelog.applier_control import LET_GO, READ_AHEAD, SHARED, ApplierRequest, DecidedStep, LetGo
from tidelog.bulk.jobs import ReplayJob
from tidelog.bulk.told import Progress, Report
from tidelog.config import redacted_url
from tidelog.errors import BadInput, ConfigError, NotFound, TidelogError, Unavailable
from tidelog.messages import APPLIER, StateReply, decode_reply, encode
from tidelog.ports import Bus
from tidelog.positions import published_ts
from tidelog.security.access import NatsAccess
from tidelog_cli import bulk, operate
from tidelog_cli.connect import TIMEOUT_S, connected, nodes_soon
from tidelog_cli.ending import to_its_end
from tidelog_cli.operate import Wish
from tidelog_cli.state_file import TopologyState
from tidelog_cli.terminal import say

S = TypeVar("S", bound=DecidedStep)
QUIET_S = 120.0
POLL_S = 0.5
FOUND = ("downstream", "cluster", "nats_url", *NatsAccess.__struct_fields__, *SHARED)
"""Settings of its file."""


class Given(msgspec.Struct, frozen=True):
    """What an Applier's configuration says of its relay and its downstream."""

    relay: str
    shared: dict[str, Any]
    password: str = ""

    def job(self, chosen: Mapping[str, Any]) -> ReplayJob:
        """Raises ConfigError."""
        try:
            return msgspec.convert(
                {"kind": "replay", "inputs": [self.relay]}
                | {key.replace("_", "-"): value for key, value in self.shared.items()}
                | {k.replace("_", "-"): msgspec.to_builtins(v) for k, v in chosen.items()},
                type=ReplayJob,
            )
        except msgspec.ValidationError as error:
            raise ConfigError(f"the Applier's configuration: {error}") from error


def settings(node: str, config: Path | None, directory: Path | None) -> Given:
    """From its configuration file, that of `tidelog up` unless one is named; what that leaves out
    has the variables' values or the defaults. Raises ConfigError, NotFound."""
    path = config or (directory or Path("tidelog-data")) / node / "applier.toml"
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        hint = "name its configuration by --applier-config"
        raise NotFound(f"{path} does not exist", hint=hint) from error
    except (OSError, UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} can't be read: {error}") from error
    plain = {key.replace("-", "_"): value for key, value in document.items()}
    for key in ("downstream", "downstream_password", "downstream_password_file"):
        plain.setdefault(key, os.environ.get(f"TIDELOG_APPLIER_{key.upper()}", ""))
    relay_table = plain.get("relay", {})
    if not isinstance(relay_table, dict):
        raise ConfigError(f"{path}: relay is no table")
    name = {k.replace("-", "_"): v for k, v in relay_table.items()}.get("log_dir", "relay")
    texts = {key: plain.get(key, "") for key in ("data_dir", "downstream_password_file")}
    for key, value in {"relay.log_dir": name, **texts}.items():
        if not isinstance(value, str):
            raise ConfigError(f"{path}: {key.replace('_', '-')} is no text")
    if not name:
        raise BadInput(f"{node} keeps no relay log", hint="replay the Pumps' logs instead")
    relay = Path(plain.get("data_dir") or "data/applier") / name
    if not relay.is_dir():
        raise NotFound(
            f"{relay} is no directory of this machine", hint="run this beside its Applier"
        )
    shared = {key: plain[key] for key in FOUND if key in plain}
    return Given(str(relay.resolve()), shared, _password(plain))


def _password(plain: Mapping[str, Any]) -> str:
    path = plain["downstream_password_file"]
    if not path:
        return str(plain["downstream_password"])
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} can't be read: {error}") from error


async def hand_over(
    state: TopologyState, node: str, job: ReplayJob, env: Mapping[str, str], told: bulk.Told
) -> Report:
    """However the job ends, the Applier goes on from the checkpoint that is there then. Raises
    what the job fails by, and what an operator's pause is refused with."""
    async with connected(state) as bus:
        try:
            paused = await _ordered(bus, state.cluster, node, operate.PAUSE)
        except (Unavailable, asyncio.CancelledError):  # the order may stand all the same
            with suppress(TidelogError):  # what this ended by is told, not that
                await to_its_end(_resumed(bus, state.cluster, node))
            raise
        try:
            await _come_true(bus, state.cluster, *paused, told)
            job = as_told(job, (await _ask(bus, state.cluster, node, LET_GO, LetGo)).settings)
            await _read_ahead(bus, state.cluster, node, job.feed, told)
            report = await bulk.do_here(job, told, env=env)
        except BaseException:
            with suppress(TidelogError):  # what this ended by is told, not that
                await to_its_end(_resumed(bus, state.cluster, node))
            raise
        resumed = await to_its_end(_resumed(bus, state.cluster, node))
        await _come_true(bus, state.cluster, *resumed, told)
        return report


def as_told(job: ReplayJob, settings: Mapping[str, Any]) -> ReplayJob:
    """With what the Applier itself goes by: flags and variables, too. Raises ConfigError if it
    writes another downstream than its file says."""
    writes = settings.get("downstream", redacted_url(job.downstream))
    if writes != redacted_url(job.downstream):
        raise ConfigError(
            f"the Applier writes {writes}, its configuration file says"
            f" {redacted_url(job.downstream) or 'none'}",
            hint="set TIDELOG_APPLIER_DOWNSTREAM as it has it, or name its file: --applier-config",
        )
    known = {key: settings[key] for key in SHARED if key in settings}
    return msgspec.structs.replace(job, **known)


async def _ordered(bus: Bus, cluster: str, node: str, action: str) -> tuple[Wish, StateReply]:
    wish = Wish(node, action, APPLIER)
    return wish, await operate.ask(bus, cluster, wish, lambda _lost, _question: None)


async def _resumed(bus: Bus, cluster: str, node: str) -> tuple[Wish, StateReply]:
    """Raises as `_ordered`, and says then what is left to do."""
    try:
        return await _ordered(bus, cluster, node, operate.RESUME)
    except TidelogError as error:
        say(Text(f"{node} is not resumed, give `tidelog resume {node}`: {error.message}"))
        raise
    except BaseException:
        say(Text(f"{node} is perhaps not resumed, give `tidelog resume {node}`"))
        raise


async def _come_true(
    bus: Bus, cluster: str, wish: Wish, answer: StateReply, told: bulk.Told
) -> None:
    def wait(why: str) -> None:
        told(Progress(wish.action, note=why))

    await operate.come_true(bus, cluster, wish, answer, QUIET_S, wait)


async def _read_ahead(bus: Bus, cluster: str, node: str, feed: str, told: bulk.Told) -> None:
    """Until the Applier's relay log holds what is published now, or it gets no further: then what
    it holds is replayed. Raises what keeps it from reading on for good."""
    goal = published_ts(await nodes_soon(bus, cluster), feed)
    loop = asyncio.get_running_loop()
    reached, moved_at = 0, loop.time()
    while reached < goal and loop.time() - moved_at < QUIET_S:
        await asyncio.sleep(POLL_S)
        try:
            found = (await _ask(bus, cluster, node, READ_AHEAD, DecidedStep)).commit_ts
        except Unavailable:
            continue
        if found > reached:
            reached, moved_at = found, loop.time()
            told(Progress("reading ahead", commit_ts=reached, note=f"the stream, to {goal}"))


async def _ask(bus: Bus, cluster: str, node: str, verb: str, answer_type: type[S]) -> S:
    subject = subjects.applier(cluster, node, "control")
    answer = await bus.request(subject, encode(ApplierRequest(verb)), timeout_s=TIMEOUT_S)
    return decode_reply(answer.data, answer_type)
