"""Who can wait for whose mailbox is an acyclic graph (design section 3).

Found out, not declared: the refs that the living actors of each service hold, in their attributes,
in helpers of theirs, bound methods and closures. Whoever tells itself does so in a task of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from types import FunctionType, MethodType
from typing import Any

import pytest

from tests.quiet import quiet
from tests.simulation.cluster import Cluster
from tests.simulation.plan import draw
from tidelog.actor import Actor, Ref
from tidelog.sim import World, run
from tidelog.supervisor import Supervisor

DEEP = 5
Graph = dict[str, set[str]]


def refs(holder: object, deep: int = DEEP) -> Iterator[str]:
    """Names of the actors that `holder` can tell something."""
    if isinstance(holder, Ref):
        yield holder.name
    elif deep:
        for part in parts(holder):
            yield from refs(part, deep - 1)


def parts(holder: object) -> Iterable[object]:
    if isinstance(holder, MethodType):
        return [] if isinstance(holder.__self__, Actor) else [holder.__self__]
    if isinstance(holder, FunctionType):
        return [cell.cell_contents for cell in holder.__closure__ or ()]
    if isinstance(holder, dict):
        return list(holder.values())
    if isinstance(holder, list | tuple | set):
        return list(holder)
    if not type(holder).__module__.startswith("tidelog") or isinstance(holder, Supervisor):
        return []
    found: dict[str, Any] = getattr(holder, "__dict__", {})
    return [value for name, value in found.items() if name != "_cell"]


def graph(tree: Supervisor) -> Graph:
    return {
        child.ref.name: set(refs(child.cell.actor)) - {child.ref.name}
        for child in tree._children
        if child.cell is not None
    }


def check(edges: Graph) -> list[str]:
    """From the first to be told to the last. Raises CycleError."""
    return list(TopologicalSorter(edges).static_order())


def test_the_mailboxes_of_every_service_form_no_cycle() -> None:
    quiet()

    async def main(world: World) -> dict[str, Graph]:
        plan = next(draw(seed) for seed in range(200) if not draw(seed).faults)
        cluster = Cluster(world, plan)
        cluster.start()
        trees = {node.name: node for node in cluster.services if node not in cluster.late}
        await world.until(
            lambda: all(getattr(n.service, "ready", False) for n in trees.values()), 30, "everybody"
        )
        return {
            name: graph(node.service)
            for name, node in trees.items()
            if isinstance(node.service, Supervisor)
        }

    found = run(main, 1)
    for edges in found.values():
        check(edges)
    pump = found["pump-1"]
    # It does see what the actors hold: the chain that the slow chaser is about.
    assert {"pump.sorter", "pump.indexer"} <= pump["pump.writer"] & pump["pump.chaser"]
    assert pump["pump.indexer"] == {"pump.sorter"}
    assert pump["pump.sorter"] == set()
    assert "pump.writer" in pump["pump.membership"]
    assert "registry" in " ".join(found)


def test_a_cycle_is_seen() -> None:
    with pytest.raises(CycleError):
        check({"a": {"b"}, "b": {"c"}, "c": {"a"}})
