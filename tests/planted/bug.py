"""A planted bug: small edits that take one safety step out of the sources."""

from __future__ import annotations

from dataclasses import dataclass

PUMP = "services/pump/tidelog_pump"
DRAINER = "services/drainer/tidelog_drainer"
APPLIER = "services/applier/tidelog_applier"
REGISTRY = "services/registry/tidelog_registry"
LIBRARY = "shared/tidelog"
CLIENT = "shared/tidelog/pump_client"


@dataclass(frozen=True)
class Edit:
    """Replace `old`, which occurs exactly once in `path`, by `new`."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Bug:
    """`breaks` names the rule of design sections 3 to 9 that the edits break. One that is `hunted`
    is found by random histories, too."""

    name: str
    breaks: str
    edits: tuple[Edit, ...]
    hunted: bool = False
