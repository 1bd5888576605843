"""`python -m tidelog_<service> health`: is the one that runs in this data directory ready?

Containers ask every few seconds, so it loads what it needs and no service.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

from tidelog.config import HelpRequested, ServiceConfig, load
from tidelog.errors import EXIT_FAILED, EXIT_OK, TidelogError, exit_code

ARGUMENT = "health"
HTTP_FILE = "http"
"""In the data directory: the admin address of the process that runs there."""
ANSWER_S = 3.0


def is_answered(name: str, config_class: type[ServiceConfig]) -> bool:
    """Whether the first argument asks for it; then it is answered, and the process ends: 0 = ready,
    else why not, on standard error. So it is False where it returns."""
    arguments = sys.argv[1:]
    if arguments[:1] != [ARGUMENT]:
        return False
    try:
        config = load(config_class, name, arguments[1:], os.environ)
    except HelpRequested as help_text:
        sys.stdout.write(f"{help_text.message}\n")
        sys.exit(EXIT_OK)
    except TidelogError as error:
        sys.stderr.write(f"tidelog-{name}: {error}\n")
        sys.exit(exit_code(error))
    sys.exit(health(config.data_dir or f"data/{name}"))


def health(data_dir: str) -> int:
    """0 if the service that runs in this data directory says it is ready; else 1, and why."""
    addr = ""
    try:
        addr = (Path(data_dir) / HTTP_FILE).read_text(encoding="utf-8").strip()
        with urllib.request.urlopen(f"http://{addr}/readyz", timeout=ANSWER_S):
            return EXIT_OK
    except urllib.error.HTTPError as error:
        with error:
            said = error.read().decode(errors="replace")
    except OSError as error:
        who = f"nobody answers at {addr}" if addr else f"nothing runs in {data_dir}"
        said = f"not ready: {who} ({error})"
    sys.stderr.write(f"{said.strip()}\n")
    return EXIT_FAILED
