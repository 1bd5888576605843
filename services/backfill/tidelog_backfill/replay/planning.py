"""From what chunks hold to what a replay does, step by step (see plan.py). Pure.

    facts = [survey(chunk) for chunk in found(directory).chunks()]
    made = plan(facts, Wanted(after_ts=checkpoint.commit_ts, ddls_done=checkpoint.ddls_done))

The same logs are always cut into the same segments with the same numbers, whatever of them is done:
a replay that was interrupted plans again from its checkpoint, and finds its own marks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tidelog.changes import DdlMessage
from tidelog.decode.config import DecodeConfig
from tidelog.errors import BadInput, NotFound
from tidelog.schema.structure import TableStructure
from tidelog.schema.tracker import SchemaTracker
from tidelog.subjects import unescape
from tidelog.timestamps import TS_MAX
from tidelog_backfill.files.chunk import Facts
from tidelog_backfill.files.lost import damaged, missing, undecided, unwritten
from tidelog_backfill.files.names import Names
from tidelog_backfill.files.view import Span, View
from tidelog_backfill.replay import plan_pb, plan_relays, plan_segments
from tidelog_backfill.replay.errors import no_history, out_of_reach
from tidelog_backfill.replay.outline import Limit, Outline, Stretch, joined
from tidelog_backfill.replay.pb_ddls import text_ddls
from tidelog_backfill.replay.pb_history import HistorySchemas
from tidelog_backfill.replay.pb_texts import TextSchemas
from tidelog_backfill.replay.plan import Plan, Segment
from tidelog_backfill.replay.routing import Place
from tidelog_backfill.replay.timeline import Timeline
from tidelog_backfill.replay.wanted import Wanted, wanted_part

DEFAULT = DecodeConfig()
NOTHING: Mapping[Place, TableStructure] = {}


def plan(
    facts: Sequence[Facts],
    wanted: Wanted,
    *,
    history: SchemaTracker | None = None,
    config: DecodeConfig = DEFAULT,
    present: Mapping[Place, TableStructure] = NOTHING,
) -> Plan:
    """`history` (all of it, see history.py) and `config` (the feed's, its Drainer's) are for Pumps'
    logs; pb files may have a history, too, of `config` only the DDL policy, and without a history
    `present`: the downstream's tables.

    Raises RelayGap, Corrupt, Conflict; UnknownJob and UnknownTable for a history that is too
    short; DdlNotDecided, DdlNotTold, Undecodable; BadInput; Stopped.
    """
    outline = _outline(facts, wanted, history, config, present)
    after = _after(outline, wanted)
    until = max(after, min(wanted.until_ts, outline.ends))
    relays = [one for one in facts if one.chunk.kind == "relay"]
    gaps = list(plan_relays.gaps(relays, after, until))
    if gaps and wanted.on_corrupt == "stop":
        raise gaps[0]
    timeline = Timeline(facts)
    steps = enumerate(_steps(outline, timeline, until, wanted.segment_bytes))
    left = ((number, _left(step, after, wanted)) for number, step in steps)
    making = _Making(timeline, wanted, config, outline.lacking)
    segments = [
        making.segment(number, step)
        for number, step in left
        if step.ddls or not timeline.empty(step.after_ts, step.until_ts)
    ]
    if segments:
        segments[-1] = msgspec.structs.replace(segments[-1], commit_ts=until)
    lacks = map(str, unwritten(facts, after, until))
    warnings = [*outline.warnings, *missing(gaps), *lacks, *damaged(facts)]
    skipped = sum(one.skipped for one in facts)
    return Plan(outline.begins, until, segments, outline.left_out, warnings, skipped)


def _after(outline: Outline, wanted: Wanted) -> int:
    """What is up to there is not replayed. Raises NotFound, BadInput where nobody can go on from
    where the logs begin."""
    if wanted.after_ts is not None:
        return wanted.after_ts
    if not outline.ends:
        raise NotFound(
            "these logs hold nothing yet, and nothing says what the downstream holds",
            hint="say it by --start, or wait until something is committed",
        )
    if wanted.until_ts < outline.begins:
        raise BadInput(
            f"these logs begin behind {outline.begins}: {wanted.until_ts} is before that",
            hint="name the logs from before, too",
        )
    return outline.begins


def _within(outline: Outline, limits: Sequence[Limit], wanted: Wanted) -> Outline:
    """It begins and ends below the limits, unless what is behind them is taken as it is."""
    if wanted.on_corrupt == "skip":
        told = [f"{one.why}: {one.beyond}" for one in limits]
        return msgspec.structs.replace(outline, warnings=[*outline.warnings, *told])
    told = [f"the replay ends at {one.upto} at the latest: {one.why}" for one in limits]
    lowest = min((one.upto for one in limits), default=outline.ends)
    return msgspec.structs.replace(
        outline,
        begins=min(outline.begins, lowest),
        ends=min(outline.ends, lowest),
        warnings=[*outline.warnings, *told],
    )


def _limits(outline: Outline, facts: Sequence[Facts], wanted: Wanted) -> list[Limit]:
    """Those that are below what is asked for. Raises Stopped where that can't be had."""
    found = list(outline.limits)
    open_ts = [one.open_ts for one in facts if one.open_ts]
    if open_ts and wanted.goes_on:
        found.append(Limit(min(open_ts), undecided(facts), "they are left out"))
    if wanted.goes_on:
        found += plan_segments.shorter(facts)
    found = sorted(one for one in found if one.upto < wanted.until_ts)
    asked = wanted.until_ts < TS_MAX or not wanted.goes_on
    if found and asked and wanted.on_corrupt == "stop":
        raise out_of_reach(found[0])
    return found


def _outline(
    facts: Sequence[Facts],
    wanted: Wanted,
    history: SchemaTracker | None,
    config: DecodeConfig,
    present: Mapping[Place, TableStructure],
) -> Outline:
    """With the DDLs and the tables that are wanted only, up to where that is sure."""
    kinds = {one.chunk.kind for one in facts}
    names = Names(wanted.tables)
    if "pb" in kinds:
        made = _pb_outline(facts, wanted, history, config, present)
    elif "segment" not in kinds:
        made = plan_relays.outline(facts, skips=wanted.on_corrupt == "skip")
    elif history is None:
        raise no_history()
    else:
        made = plan_segments.outline(facts, history, config, names, wanted.until_ts)
    made = _within(made, _limits(made, facts, wanted), wanted)
    until = min(wanted.until_ts, made.ends)
    stretches = []
    for one in made.stretches:
        upto = (ddl for ddl in one.ddls if ddl.commit_ts <= until)
        ddls = [part for ddl in upto if (part := wanted_part(ddl, names)) is not None]
        structures = {
            key: of
            for key, of in one.structures.items()
            if names.wants(unescape(key.partition(".")[0]), of.name)
        }
        stretches.append(msgspec.structs.replace(one, ddls=ddls, structures=structures))
    return msgspec.structs.replace(made, stretches=list(joined(stretches)))


def _pb_outline(
    facts: Sequence[Facts],
    wanted: Wanted,
    history: SchemaTracker | None,
    config: DecodeConfig,
    present: Mapping[Place, TableStructure],
) -> Outline:
    begins, ends = plan_pb.bounds(facts)
    after = begins if wanted.after_ts is None else wanted.after_ts
    names = Names(wanted.tables)
    schemas: plan_pb.Schemas
    if history is not None:
        texts = text_ddls(facts, TS_MAX)
        schemas = HistorySchemas(history, config.ddl_policy, begins, ends, texts)
    else:
        schemas = TextSchemas(present, after, names, wanted.begun_ts, wanted.ddls_done)
    return plan_pb.outline(facts, schemas, names, after, wanted.until_ts)


def _steps(
    outline: Outline, timeline: Timeline, until: int, segment_bytes: int
) -> Iterator[Stretch]:
    """Stretches without rows give their DDLs to the next one, large ones are cut."""
    waiting: list[DdlMessage] = []
    for stretch in outline.stretches:
        waiting += stretch.ddls
        end = min(stretch.until_ts, until)
        if stretch.after_ts >= end or timeline.empty(stretch.after_ts, end):
            continue
        for after, upto in timeline.cut(stretch.after_ts, end, segment_bytes):
            yield msgspec.structs.replace(stretch, after_ts=after, until_ts=upto, ddls=waiting)
            waiting = []
    if waiting:
        yield Stretch(until, until, waiting)


def _left(step: Stretch, after: int, wanted: Wanted) -> Stretch:
    """What is not done of it."""
    ddls = [
        ddl
        for ddl in step.ddls
        if ddl.commit_ts > after and ddl.schema_version not in wanted.ddls_done
    ]
    begin = max(after, step.after_ts)
    return msgspec.structs.replace(
        step, after_ts=begin, until_ts=max(begin, step.until_ts), ddls=ddls
    )


class _Making:
    """Segments of steps."""

    def __init__(
        self,
        timeline: Timeline,
        wanted: Wanted,
        config: DecodeConfig,
        lacking: frozenset[str],
    ) -> None:
        self._timeline = timeline
        self._view = View(
            [],
            only=wanted.tables,
            channel_id=config.channel_id,
            ignored_txns=frozenset(config.ignore_txn_commit_ts),
            lacking=lacking,
        )

    def segment(self, number: int, step: Stretch) -> Segment:
        share = self._timeline.share(step.after_ts, step.until_ts)
        named = list(_named(step)) if any(one.kind == "pb" for one in share.chunks) else []
        span = Span(step.after_ts, step.until_ts, step.tables, step.dropped, step.marks, named)
        return Segment(
            number,
            step.until_ts,
            step.ddls,
            msgspec.structs.replace(self._view, spans=[span]),
            share.chunks,
            step.structures,
            share.rows,
            share.size,
            share.surveyed,
        )


def _named(step: Stretch) -> Iterator[tuple[str, TableStructure]]:
    for key, structure in step.structures.items():
        yield unescape(key.partition(".")[0]), structure
