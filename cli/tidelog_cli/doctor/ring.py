"""Loopback: do both directions agree, and are there only two clusters? Pure.

A cluster that is replicated back has the mark table: whoever writes a feed into it names its
channel there. A mark of another channel than ours is from a third cluster: its transactions would
go round for ever (docs/filters.md). A ring in which all have one channel can't be seen from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog_cli.doctor.finding import About, Finding, named
from tidelog_cli.doctor.services import Told

CHECK = "loopback"
MARK_SCHEMA = "retl"
_TWO = (
    "replicate between two clusters only; marks that an abandoned channel left: "
    "`DELETE FROM {schema}._drainer_repl_mark WHERE channel_id = …`"
)


class Loop(NamedTuple):
    """Of a service that has `loopback-control`."""

    service: str
    channel: int
    mark_schema: str


def loops(told: Sequence[Told]) -> list[Loop]:
    found = []
    for one in told:
        config = one.status["config"] if one.status else {}
        if config.get("loopback-control"):
            schema = str(config.get("mark-schema", MARK_SCHEMA))
            found.append(Loop(one.name, int(config.get("channel-id", 0)), schema))
    return found


def directions(found: Sequence[Loop]) -> list[Finding]:
    """Drainer and Applier of one direction have the same channel, and the same place of marks."""
    channels = {one.channel for one in found}
    about = About(CHECK)
    if len(channels) > 1:
        said = named(f"{one.service} has {one.channel}" for one in found)
        hint = "give `channel-id` of Drainer and Applier one value, the same in both directions"
        return [about.wrong(f"the channels differ: {said}", hint)]
    if len({one.mark_schema.lower() for one in found}) > 1:
        said = named(f"{one.service} has {one.mark_schema}" for one in found)
        hint = "give `mark-schema` of Drainer and Applier one value, the same in both directions"
        return [about.wrong(f"the schemas of marks differ: {said}", hint)]
    return [about.ok(f"channel {channel}") for channel in channels]


def marks(
    where: str, channels: Sequence[int] | None, ours: Sequence[Loop], schema: str
) -> list[Finding]:
    """`channels`: those that the mark table of a database names; None = nobody may look."""
    about = About(CHECK, where)
    if channels is None:
        grant = f"GRANT SELECT ON {schema}.* TO this account"
        return [about.unknown("this account may not read the mark table", grant)]
    hint = _TWO.format(schema=schema)
    if len(channels) > 1:
        said = named(map(str, channels))
        says = f"it has marks of channels {said}: three clusters or more replicate in a ring"
        return [about.wrong(says, hint)]
    other = [one for one in ours if channels and one.channel != channels[0]]
    if other:
        says = f"it has marks of channel {channels[0]}, and {other[0].service} has "
        return [about.wrong(f"{says}{other[0].channel}: a third cluster writes there", hint)]
    if channels and not ours:
        says = f"somebody replicates into it on channel {channels[0]}, and nothing here knows"
        return [
            about.warning(
                says,
                "if its changes come from this cluster: `loopback-control` and `channel-id` of the "
                "Drainer and of the Applier, in both directions (docs/filters.md)",
            )
        ]
    return [about.ok("marks of one channel, at most")]
