"""What `tidelog inspect` found, and how it says it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from rich.text import Text


class Found(msgspec.Struct, frozen=True):
    """A record of the timestamp asked for; in pb_binlog files start_ts is not told (0)."""

    offset: int
    bytes: int
    kind: str
    start_ts: int
    commit_ts: int


class Report(msgspec.Struct, frozen=True):
    """One file. `footer`: the largest timestamp it states; null while it is not closed. `bad`: why
    the record at `bad_offset` can't be read, or what else is wrong with the file. `torn` bytes at
    the end of the last segment lie beyond what is synced: they are being written, or were when the
    Pump stopped, and nobody was acked for them."""

    file: str
    bytes: int = 0
    records: int = 0
    kinds: dict[str, int] = {}
    first_ts: int = 0
    last_ts: int = 0
    max_ts: int = 0
    footer: int | None = None
    torn: int = 0
    bad: str = ""
    bad_offset: int = 0
    found: list[Found] = []


class Inspection(msgspec.Struct, frozen=True):
    files: list[Report]
    bad: bool


def judged(reports: list[Report]) -> Inspection:
    return Inspection(reports, any(report.bad for report in reports))


def lines(found: Inspection) -> Iterator[Text]:
    """For a person: a line a file, and one for each record that was asked for."""
    for report in found.files:
        state, colour = ("open" if report.footer is None else "closed"), "green"
        if report.torn:
            state, colour = f"{report.torn} bytes beyond what is synced", "yellow"
        if report.bad:
            state, colour = f"BAD at offset {report.bad_offset}: {report.bad}", "red"
        kinds = ", ".join(f"{count} {kind}s" for kind, count in report.kinds.items() if count)
        yield Text.assemble(
            f"{report.file}: {report.records} records ({kinds or 'none'}), {report.bytes} bytes, "
            f"from {report.first_ts} to {report.last_ts}, largest {report.max_ts}, ",
            (state, colour),
        )
        for one in report.found:
            start = f" of {one.start_ts}" if one.start_ts else ""
            commit = f" at {one.commit_ts}" if one.commit_ts else ""
            yield Text(f"  offset {one.offset}: {one.kind}{start}{commit}")
