"""Every subject of a topology: who serves or publishes it, and what travels on it. The page of
subjects and the AsyncAPI document are made from this list."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from tidelog import messages as m
from tidelog import pump_control as p
from tidelog import subjects
from tidelog.applier_control import ApplierRequest, DecidedStep, LetGo
from tidelog.bulk.control import AskJobs, Cancel, Jobs, JobStatus, Submit
from tidelog.changes import DdlMessage, Marker, RowMessage, Watermark
from tidelog.drainer_control import DrainerRequest, FeedDdls
from tidelog.rewind import Replay, Rewind
from tidelog.schema.structure import TableStructure
from tidelog_backfill.snapshot.feed import ChunkDone, CopyDone
from tidelog_backfill.snapshot.plan import SnapshotPlan

Struct = type[msgspec.Struct]
C, NODE, FEED, DB, TABLE = "<c>", "<node>", "<feed>", "<db>", "<table>"


class Channel(NamedTuple):
    """`serves`: who answers requests, or publishes. `other`: who asks, or reads. A body that is no
    JSON is named by its protobuf message. `name`: a word for it, unique."""

    name: str
    subject: str
    serves: str
    other: str
    bodies: tuple[Struct | str, ...]
    what: str
    replies: tuple[Struct | str, ...] = ()
    kind: Literal["control", "changes", "snapshot"] = "control"


def _registry(verb: str, other: str, body: Struct, reply: Struct, what: str) -> Channel:
    subject = subjects.registry(C, verb)
    return Channel(f"registry-{verb}", subject, "registry", other, (body,), what, (reply,))


def _control() -> list[Channel]:
    every = "every node"
    return [
        _registry("register", every, m.Register, m.Registered, "join the cluster"),
        _registry(
            "heartbeat", every, m.Heartbeat, m.Beat, "renew the lease; positions, consumers, state"
        ),
        _registry("nodes", "anybody", m.Empty, m.Nodes, "everything the registry knows"),
        _registry(
            "state", "operators", m.StateRequest, m.StateReply, "pause, resume, offline of a node"
        ),
        _registry(
            "safepoint",
            "applications, Appliers, operators",
            m.SafePointRequest,
            m.SafePoint,
            "register, move or remove a consumer; ask for the safe point",
        ),
        _registry(
            "tso",
            "Pumps, writers",
            m.TsoRequest,
            m.TsoReply,
            "timestamps, with `oracle = embedded`",
        ),
        _registry(
            "ddl-append", "writers", m.DdlAppend, m.Empty, "a DDL job for the embedded history"
        ),
        _registry("ddl-list", "Drainers, writers", m.DdlList, m.DdlJobs, "the embedded history"),
        Channel(
            "registry-event",
            f"tidelog.{C}.registry.event.<kind>.{NODE}",
            "registry",
            "anybody",
            (m.NodeStatus,),
            "published at every change of a node's state",
        ),
        _node(
            "pump",
            "write",
            "writers",
            ("WriteBatch",),
            ("WriteBatchResult",),
            "binlogs; a Prewrite is answered once it is synced",
        ),
        _node("pump", "pull", "Drainers", ("PullRequest",), ("PullFrame",), "a long poll"),
        _node(
            "pump",
            "control",
            "operators, Pumps, the registry, Drainers",
            (p.ControlRequest,),
            (p.PumpStatus, p.Inspected, p.Forgotten, p.WhoHas),
            "the answer is as the verb says",
        ),
        Channel(
            "txnstatus",
            subjects.txnstatus(C),
            "writers without a TiDB",
            "Pumps",
            (m.TxnStatusRequest,),
            "what became of a transaction",
            (m.TxnStatusReply,),
        ),
        _node(
            "drainer", "pump-online", "the registry", (m.PumpOnline,), (m.Empty,), "a Pump joins"
        ),
        _node(
            "drainer",
            "rewind",
            "subscribers, Appliers",
            (Rewind,),
            (Replay,),
            "fill a private stream with what the feed's no longer has",
        ),
        _node("drainer", "control", "operators", (DrainerRequest,), (FeedDdls,), "DDLs of a feed"),
        _node(
            "applier",
            "control",
            "operators, bulk jobs",
            (ApplierRequest,),
            (DecidedStep, LetGo),
            "a DDL it stands at; handing over its downstream",
        ),
        _node("backfill", "submit", "operators", (Submit,), (JobStatus,), "a bulk job"),
        _node("backfill", "status", "operators", (AskJobs,), (Jobs,), "the jobs, or one of them"),
        _node("backfill", "cancel", "operators", (Cancel,), (JobStatus,), "end a job"),
        Channel(
            "backfill-event",
            f"tidelog.{C}.backfill.{NODE}.event.<job>",
            "backfill",
            "operators",
            (JobStatus,),
            "published as a job gets on",
        ),
    ]


def _node(
    service: str,
    verb: str,
    other: str,
    bodies: tuple[Struct | str, ...],
    replies: tuple[Struct | str, ...],
    what: str,
) -> Channel:
    subject = f"tidelog.{C}.{service}.{NODE}.{verb}"
    serves = service if service == "backfill" else service.capitalize()
    return Channel(f"{service}-{verb}", subject, serves, other, bodies, what, replies)


def _stream(name: str, subject: str, body: Struct, what: str, snapshot: bool = False) -> Channel:
    serves = "backfill" if snapshot else "Drainer"
    kind: Literal["changes", "snapshot"] = "snapshot" if snapshot else "changes"
    return Channel(name, subject, serves, "applications, Appliers", (body,), what, kind=kind)


def _streams() -> list[Channel]:
    return [
        _stream(
            "changes-row",
            f"changes.{FEED}.row.{DB}.{TABLE}",
            RowMessage,
            "what one batch changed in one table, in commit order",
        ),
        _stream(
            "changes-ddl", f"changes.{FEED}.ddl.{DB}.{TABLE}", DdlMessage, "a DDL, before its rows"
        ),
        _stream("changes-txn", subjects.changes_txn(FEED), Marker, "the last message of a batch"),
        _stream(
            "changes-watermark",
            subjects.changes_watermark(FEED),
            Watermark,
            "each second while idle: nothing at or below it comes any more",
        ),
        _stream(
            "snap-row",
            f"snap.{FEED}.row.{DB}.{TABLE}",
            RowMessage,
            "rows of a copy, `op` is `r`",
            snapshot=True,
        ),
        _stream(
            "snap-table",
            f"snap.{FEED}.table.{DB}.{TABLE}",
            TableStructure,
            "a table's structure, before its rows",
            snapshot=True,
        ),
        _stream(
            "snap-plan", subjects.snap(FEED, "plan"), SnapshotPlan, "what is copied", snapshot=True
        ),
        _stream(
            "snap-chunk", subjects.snap(FEED, "chunk"), ChunkDone, "a part is there", snapshot=True
        ),
        _stream(
            "snap-done", subjects.snap(FEED, "done"), CopyDone, "the copy is there", snapshot=True
        ),
    ]


def channels() -> list[Channel]:
    return _control() + _streams()
