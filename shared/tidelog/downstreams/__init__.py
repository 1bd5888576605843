"""Databases the Applier writes to. `open_downstream` is the factory behind the Downstream port."""

from __future__ import annotations

from tidelog.downstream import Downstream, DownstreamOptions
from tidelog.downstreams.target import HINT, Target
from tidelog.errors import ConfigError

__all__ = ["open_downstream"]


def open_downstream(options: DownstreamOptions) -> Downstream:
    """The downstream of its URL (`target.HINT` has the forms).

    Nothing is connected yet. Raises ConfigError.
    """
    target = Target.parse(options.url, options.password.reveal())
    match target.scheme:
        case "sqlite":
            from tidelog.downstreams.sqlite import SqliteDownstream

            return SqliteDownstream(target)
        case "mysql":
            from tidelog.downstreams.mysql import MysqlDownstream

            return MysqlDownstream(target, options)
        case "file":
            from tidelog.downstreams.files import FilesDownstream
            from tidelog.real.disk import RealDisk

            return FilesDownstream(target, RealDisk, if_free=options.if_free)
        case "blackhole":
            from tidelog.downstreams.blackhole import Blackhole

            return Blackhole(options)
        case _:
            raise ConfigError(f"no downstream speaks {target.scheme}", hint=HINT)
