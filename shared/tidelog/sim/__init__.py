"""The simulator: whole clusters in one thread, seeded, on virtual time (design section 3)."""

from tidelog.sim.loop import CallbackFailed, Deadlock, LimitReached, SimulationError
from tidelog.sim.node import Node
from tidelog.sim.world import World, run

__all__ = [
    "CallbackFailed",
    "Deadlock",
    "LimitReached",
    "Node",
    "SimulationError",
    "World",
    "run",
]
