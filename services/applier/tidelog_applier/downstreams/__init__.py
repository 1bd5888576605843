"""Databases the Applier writes to. `open_downstream` is the factory behind the Downstream port."""

from __future__ import annotations

from tidelog.downstream import Downstream, DownstreamOptions
from tidelog.errors import ConfigError
from tidelog_applier.downstreams.target import HINT, Target

__all__ = ["open_downstream"]


def open_downstream(options: DownstreamOptions) -> Downstream:
    """The downstream of its URL (`target.HINT` has the forms).

    Nothing is connected yet. Raises ConfigError.
    """
    target = Target.parse(options.url, options.password.reveal())
    match target.scheme:
        case "sqlite":
            from tidelog_applier.downstreams.sqlite import SqliteDownstream

            return SqliteDownstream(target)
        case "mysql":
            from tidelog_applier.downstreams.mysql import MysqlDownstream

            return MysqlDownstream(target, options)
        case "file":
            from tidelog.real.disk import RealDisk
            from tidelog_applier.downstreams.files import FilesDownstream

            return FilesDownstream(target, RealDisk, if_free=options.if_free)
        case "blackhole":
            from tidelog_applier.downstreams.blackhole import Blackhole

            return Blackhole(options)
    raise ConfigError(f"no downstream speaks {target.scheme}", hint=HINT)
