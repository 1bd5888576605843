"""What a service can do by itself while no NATS server answers its start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidelog.config import ServiceConfig
from tidelog.errors import TidelogError
from tidelog.ports import Ports
from tidelog.supervisor import Supervisor

C = TypeVar("C", bound=ServiceConfig)
End = Callable[[bool | TidelogError], None]
"""How it ended. True: the process has done all it was for. False: go on waiting for a server."""


@dataclass(frozen=True)
class Offline(Generic[C]):
    """After `after_s` without a server (0: none is looked for) the tree of `build` runs until it
    calls its `end`. Whatever it asks of the bus is Unavailable."""

    after_s: float
    build: Callable[[C, Ports, End], Supervisor]
