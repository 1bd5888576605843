"""From what chunks hold to what a replay does, step by step (see plan.py). Pure.

    facts = [survey(chunk) for chunk in found(directory).chunks()]
    made = plan(facts, Wanted(after_ts=checkpoint.commit_ts, early=checkpoint.early))

The same logs are always cut into the same segments with the same numbers, whatever of them is done:
a replay that was interrupted plans again from its checkpoint, and finds its own marks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tidelog.changes import DdlMessage
from tidelog.decode.config import DecodeConfig
from tidelog.schema.tracker import SchemaTracker
from tidelog.subjects import unescape
from tidelog_backfill.files.chunk import Facts
from tidelog_backfill.files.lost import lost
from tidelog_backfill.files.names import Names
from tidelog_backfill.files.view import Span, View
from tidelog_backfill.replay import plan_relays, plan_segments
from tidelog_backfill.replay.errors import no_history
from tidelog_backfill.replay.outline import Outline, Stretch, joined
from tidelog_backfill.replay.plan import Plan, Segment
from tidelog_backfill.replay.timeline import Timeline
from tidelog_backfill.replay.wanted import Wanted, is_wanted

DEFAULT = DecodeConfig()


def plan(
    facts: Sequence[Facts],
    wanted: Wanted,
    *,
    history: SchemaTracker | None = None,
    config: DecodeConfig = DEFAULT,
) -> Plan:
    """`history` (all of it, see history.py) and `config` (the feed's, its Drainer's) are for Pumps'
    logs only.

    Raises RelayGap, Corrupt, Conflict; UnknownJob and UnknownTable for a history that is too
    short; DdlNotDecided, Undecodable; BadInput.
    """
    outline = _outline(facts, wanted, history, config)
    after = outline.begins if wanted.after_ts is None else wanted.after_ts
    until = max(after, min(wanted.until_ts, outline.ends))
    if wanted.on_corrupt == "stop" and any(one.chunk.kind == "relay" for one in facts):
        plan_relays.check_gaps(facts, after, until)
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
    warnings = [*outline.warnings, *lost(facts)]
    skipped = sum(one.skipped for one in facts)
    return Plan(outline.begins, until, segments, outline.left_out, warnings, skipped)


def _outline(
    facts: Sequence[Facts], wanted: Wanted, history: SchemaTracker | None, config: DecodeConfig
) -> Outline:
    """With the DDLs and the tables that are wanted only."""
    kinds = {one.chunk.kind for one in facts}
    names = Names(wanted.tables)
    if "segment" not in kinds:
        made = plan_relays.outline(facts, skips=wanted.on_corrupt == "skip")
    elif history is None:
        raise no_history()
    else:
        made = plan_segments.outline(facts, history, config, names, wanted.until_ts)
    stretches = []
    for one in made.stretches:
        upto = (ddl for ddl in one.ddls if ddl.commit_ts <= wanted.until_ts)
        ddls = [ddl for ddl in upto if is_wanted(ddl, names)]
        structures = {
            key: of
            for key, of in one.structures.items()
            if names.wants(unescape(key.partition(".")[0]), of.name)
        }
        stretches.append(msgspec.structs.replace(one, ddls=ddls, structures=structures))
    return msgspec.structs.replace(made, stretches=list(joined(stretches)))


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
        ddl for ddl in step.ddls if ddl.commit_ts > after and ddl.schema_version not in wanted.early
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
        span = Span(step.after_ts, step.until_ts, step.tables, step.dropped, step.marks)
        return Segment(
            number,
            step.until_ts,
            step.ddls,
            msgspec.structs.replace(self._view, spans=[span]),
            share.chunks,
            step.structures,
            share.rows,
            share.size,
        )
