"""`python -m tidelog_cli` and the `tidelog` script."""

from __future__ import annotations

import os

# gRPC's core logs each fork of a process that uses it; ours fork only to exec.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from tidelog_cli.app import app
from tidelog_cli.completion import rejoin


def main() -> None:
    rejoin(os.environ)
    app()


if __name__ == "__main__":
    main()
