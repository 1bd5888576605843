"""`python -m tidelog_cli` and the `tidelog` script."""

from __future__ import annotations

import os
import sys

# gRPC's core logs each fork of a process that uses it; ours fork only to exec.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from tidelog.errors import EXIT_CONFIG
from tidelog.imports import spare_certificates, spare_tracebacks

try:
    spare_certificates()
    spare_tracebacks()
    from tidelog_cli.command_line import command_line, named
    from tidelog_cli.completion import rejoin

    app = command_line(named(sys.argv, os.environ))
except ModuleNotFoundError as error:
    if (error.name or "").startswith("tidelog"):
        raise
    # `pip install .` is the library alone: who reads changes needs no terminal's packages.
    hint = "pip install '.[cli]' in a checkout of Tidelog"
    said = f"ConfigError: {error.name} is not installed\n  try: {hint}\n"
    sys.stderr.write(said)
    sys.exit(EXIT_CONFIG)


def main() -> None:
    rejoin(os.environ)
    app()


if __name__ == "__main__":
    main()
