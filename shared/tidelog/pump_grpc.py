"""What a Pump and its client say to each other beside TiDB's own messages, as gRPC metadata."""

from __future__ import annotations

from typing import Final

NODE_KEY: Final = "tidelog-node"
"""Names, escaped, the Pump a binlog is for: another one may have its address by now, and must not
ack the Commit of a Prewrite that it doesn't have. A TiDB names none."""
ERROR_KEY: Final = "tidelog-error"
"""Trailing: the class of the error that a Pump answers; a status alone tells less."""
DEFINITE_KEY: Final = "tidelog-definite"
"""Trailing: "true" if what was asked for surely did not happen, else "false"."""
