"""Databases the Applier writes to. `open_downstream` is the factory behind the Downstream port."""

from __future__ import annotations

from tidelog.downstream import Downstream
from tidelog.errors import ConfigError
from tidelog_applier.downstreams.target import Target

__all__ = ["open_downstream"]


def open_downstream(url: str) -> Downstream:
    """The downstream of a URL (`sqlite:////absolute/path`, `mysql://USER:PASSWORD@HOST:PORT/`).

    Nothing is connected yet. Raises ConfigError.
    """
    target = Target.parse(url)
    match target.scheme:
        case "sqlite":
            from tidelog_applier.downstreams.sqlite import SqliteDownstream

            return SqliteDownstream(target)
        case "mysql":
            from tidelog_applier.downstreams.mysql import MysqlDownstream

            return MysqlDownstream(target)
    raise ConfigError(f"no downstream speaks {target.scheme}", hint="use sqlite:// or mysql://")
