"""What an operator should know of the nodes' states, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.messages import CLOSING, JOINING, OFFLINE, ONLINE, PAUSED, PAUSING, PUMP
from tidelog.node_form import Form
from tidelog.printable import printable
from tidelog.timestamps import moment

HELD_MS = 30_000
"""So far behind the others a Pump has to be to be worth a line."""


def notes(forms: Sequence[Form]) -> list[str]:
    """A line a node that is not simply online, after one on the cluster if it takes no writes."""
    pumps = [form for form in forms if form["kind"] == PUMP and form["state"] != OFFLINE]
    found = [line for form in forms for line in (_note(form), _holds_back(form)) if line]
    if pumps and not any(is_writable(form) for form in pumps):
        found.insert(0, "no Pump takes writes")
    return found


def _holds_back(form: Form) -> str:
    """A Pump that can be asked, and stands still while others go on: by an open Prewrite."""
    lag_ms = form["lag_ms"] or 0
    if form["kind"] != PUMP or form["unreachable"] or not form["open"] or lag_ms < HELD_MS:
        return ""
    what = "a Prewrite is" if form["open"] == 1 else f"{form['open']} Prewrites are"
    return (
        f"{printable(form['nodeId'])} holds the merge back, by {lag_ms // 1000} s now: {what} open"
        " there; it says which under `oldest_open`"
    )


def is_writable(form: Form) -> bool:
    return bool(form["state"] == ONLINE and form["isAlive"])


def _note(form: Form) -> str:
    node, state, is_pump = printable(form["nodeId"]), form["state"], form["kind"] == PUMP
    waits = "; the merge waits for it" if is_pump else ""
    if form["unreachable"] and state != JOINING:
        gone = f", or, if it is gone for good, `tidelog offline {node} --accept-loss`"
        if is_pump:
            heard = f", last heard of at {at}" if (at := moment(form["updateTS"])) else ""
            return f"{node} is {state} and unreachable{heard}{waits}: start it{gone}"
        return f"{node} is {state} and unreachable: start it, or `tidelog offline {node}`"
    if state in (PAUSING, PAUSED):
        what = "takes no writes" if is_pump else "stands still"
        return f"{node} is {state} by an operator and {what}: `tidelog resume {node}` ends that"
    if state == CLOSING:
        return f"{node} is on its way offline: it says for what it waits"
    return ""
