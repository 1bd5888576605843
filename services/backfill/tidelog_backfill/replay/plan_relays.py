"""Relay logs: DDLs come as the stream had them, rows with their own names and structures. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tidelog.changes import DdlMessage, schema_key, structure_key
from tidelog.errors import Corrupt
from tidelog.relay import RelayGap
from tidelog.schema.structure import TableStructure
from tidelog.unreadable import NOT_READABLE
from tidelog_backfill.files.chunk import Facts, FoundVersion
from tidelog_backfill.replay.intervals import Intervals
from tidelog_backfill.replay.outline import Outline, Stretch, position_after, position_before

_DDL = msgspec.json.Decoder(DdlMessage)
_STRUCTURE = msgspec.json.Decoder(TableStructure)


def outline(facts: Sequence[Facts], *, skips: bool = False) -> Outline:
    """Raises Corrupt for a DDL or a structure that is none, and, unless what is damaged `skips`,
    for rows whose structure is nowhere."""
    covered = list(coverage(facts))
    ddls = _once(_ddls(facts))
    begins = min((above for above, _ in covered), default=0)
    ends = max((upto for _, upto in covered), default=begins)
    named = _Named(facts)
    stretches: list[Stretch] = []
    after, waiting = begins, list[DdlMessage]()
    for ddl in ddls:
        if position_before(ddl) > after:
            until = position_before(ddl)
            stretches.append(Stretch(after, until, waiting, structures=named.over(after, until)))
            waiting = []
        waiting.append(ddl)
        after = max(after, position_after(ddl))
    stretches.append(Stretch(after, ends, waiting, structures=named.over(after, ends)))
    if named.missing and not skips:
        raise Corrupt(f"the relay log lacks the structure of {', '.join(sorted(named.missing))}")
    lacking = [f"rows of {key} come without their structure" for key in sorted(named.missing)]
    return Outline(begins, ends, stretches, warnings=lacking, lacking=frozenset(named.missing))


def gaps(facts: Iterable[Facts], after_ts: int, until_ts: int) -> Iterator[RelayGap]:
    """Where changes of (after_ts, until_ts] are in no file."""
    reached = after_ts
    for above, upto in sorted(coverage(facts)):
        if above > reached and reached < until_ts:
            yield RelayGap(reached, above)
        reached = max(reached, upto)


def coverage(facts: Iterable[Facts]) -> Iterable[tuple[int, int]]:
    """(above, up to) of what chunks hold whole; of a header alone where it begins."""
    for one in facts:
        last = max([one.after, one.last_ts, *(ddl.commit_ts for ddl in one.ddls)])
        if not last:
            continue
        above = one.after
        for gap_above, upto in one.gaps:
            yield above, gap_above
            above = upto
        yield above, last


def _ddls(facts: Iterable[Facts]) -> list[DdlMessage]:
    """In the order of the stream: those of one transaction as its batch has them."""
    found = []
    for one in facts:
        try:
            found += [_DDL.decode(ddl.payload) for ddl in one.ddls]
        except NOT_READABLE as error:
            raise Corrupt(f"{one.chunk.path}: a DDL of the stream: {error}") from error
    return sorted(found, key=lambda ddl: ddl.commit_ts)


def _once(ddls: Iterable[DdlMessage]) -> list[DdlMessage]:
    """Two relays have the same DDLs, and a stream that was filled again may bring one a second
    time, under a later commit_ts."""
    known: set[tuple[int, int]] = set()
    found = []
    for ddl in ddls:
        # Text DDLs of the original have no version: they are told apart by their place.
        place = (0, ddl.schema_version) if ddl.schema_version else (ddl.commit_ts, 0)
        if place not in known:
            known.add(place)
            found.append(ddl)
    return found


class _Named:
    """The structures that rows of a time name."""

    def __init__(self, facts: Iterable[Facts]) -> None:
        self.missing: set[str] = set()
        self._structures: dict[str, TableStructure] = {}
        versions: list[tuple[int, int, FoundVersion]] = []
        for one in facts:
            versions += ((found.first_ts, found.last_ts, found) for found in one.versions)
            for db, data in one.structures:
                structure = _structure(one, data)
                self._structures[structure_key(db, structure)] = structure
        self._versions = Intervals(versions)

    def over(self, after: int, until: int) -> dict[str, TableStructure]:
        keys = {
            schema_key(found.db, found.table, found.version)
            for _, _, found in self._versions.over(after, until)
        }
        self.missing |= keys - self._structures.keys()
        return {key: self._structures[key] for key in sorted(keys) if key in self._structures}


def _structure(facts: Facts, data: bytes) -> TableStructure:
    try:
        return _STRUCTURE.decode(data)
    except NOT_READABLE as error:
        raise Corrupt(f"{facts.chunk.path}: a table's structure: {error}") from error
