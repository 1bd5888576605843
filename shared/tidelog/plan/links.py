"""Events of keys that updates link: they stay in order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import final

from tidelog.changes import Event
from tidelog.plan.fold import row_key
from tidelog.plan.keys import TableKeys


@final
class Chain:
    """Normalised keys that updates lead from one to another, and all events of them, in order."""

    def __init__(self) -> None:
        self.keys: list[Hashable] = []
        self.events: list[Event] = []


def link(
    events: Sequence[Event], columns: Sequence[str], keys: TableKeys
) -> tuple[list[Event], list[Chain]]:
    """The events of keys that no update changes, and the others by chain. Raises Unsure."""
    chains = _chains(events, columns, keys)
    if not chains:
        return list(events), []
    loose: list[Event] = []
    for event in events:
        image = event.after if event.before is None else event.before
        assert image is not None
        chain = chains.get(keys.first(image, event.b64))
        (loose if chain is None else chain.events).append(event)
    return loose, [*{id(chain): chain for chain in chains.values()}.values()]


def _chains(
    events: Sequence[Event], columns: Sequence[str], keys: TableKeys
) -> dict[Hashable, Chain]:
    chains: dict[Hashable, Chain] = {}
    for event in events:
        before, after = event.before, event.after
        if before is None or after is None or not changes_key(event, columns):
            continue
        one = _chain(chains, keys.first(before, event.b64))
        other = _chain(chains, keys.first(after, event.b64))
        if one is not other:
            for key in other.keys:
                chains[key] = one
            one.keys += other.keys
    return chains


def _chain(chains: dict[Hashable, Chain], key: Hashable) -> Chain:
    chain = chains.get(key)
    if chain is None:
        chain = chains[key] = Chain()
        chain.keys.append(key)
    return chain


def keeps_keys(events: Sequence[Event], columns: Sequence[str]) -> bool:
    """Whether no update changes the event's key."""
    return not any(changes_key(event, columns) for event in events)


def changes_key(event: Event, columns: Sequence[str]) -> bool:
    before, after = event.before, event.after
    if before is None or after is None:
        return False
    return row_key(before, event.b64, columns) != row_key(after, event.b64, columns)
