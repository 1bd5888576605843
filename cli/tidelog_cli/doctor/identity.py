"""May this identity do what an operator's commands do?"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog import subjects
from tidelog.errors import Refused, TidelogError
from tidelog.messages import PUMP, Nodes, encode
from tidelog.ports import Bus
from tidelog.pump_control import ControlRequest
from tidelog_cli.doctor.finding import About, Finding, named

CHECK = "permissions"
ASK_S = 2.0


async def check_identity(bus: Bus, cluster: str, found: Nodes) -> list[Finding]:
    """The registry has answered it already."""
    feeds = subjects.bucket_stream(subjects.feeds_bucket(cluster))
    asked = {"JetStream": (f"$JS.API.STREAM.INFO.{feeds}", b"")}
    for node in found.nodes:
        if node.kind == PUMP and node.isAlive:
            subject = subjects.pump(cluster, node.nodeId, "control")
            asked[node.nodeId] = subject, encode(ControlRequest("status"))
            break
    errors = {}
    for who, (subject, body) in asked.items():
        try:
            await bus.request(subject, body, timeout_s=ASK_S)
        except TidelogError as error:
            errors[who] = error
    return [judge(list(asked), errors)]


def judge(asked: Sequence[str], errors: dict[str, TidelogError]) -> Finding:
    about = About(CHECK)
    refused = [who for who, error in errors.items() if isinstance(error, Refused)]
    silent = [who for who in errors if who not in refused]
    if refused:
        says = f"this identity may not ask {named(refused)}: {errors[refused[0]].message}"
        return about.wrong(says, "use the admin's: `--nats-nkey-file DIR/admin/nkey`")
    if silent:
        hint = "it does not answer, or drops what this identity may not ask: use the admin's"
        return about.unknown(f"{named(silent)} did not answer", hint)
    return about.ok(f"this identity may ask the registry, {named(asked)}")
