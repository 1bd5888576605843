"""`python -m tidelog_<service> health`: is the one that runs in this data directory ready?

Containers ask every few seconds, each time with a process of its own, so what it costs is its
imports: where variables alone say which directory is meant, it loads no configuration, and it
speaks HTTP by itself: `urllib.request` takes longer to import than all of this.
"""

from __future__ import annotations

import os
import pkgutil
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.errors import EXIT_FAILED, EXIT_OK, TidelogError, exit_code

if TYPE_CHECKING:
    from tidelog.config import ServiceConfig

ARGUMENT = "health"
HTTP_FILE = "http"
"""In the data directory: the admin address of the process that runs there."""
ANSWER_S = 10.0
"""An image gives a look 15: a service that is slow is not ill."""
MAX_ANSWER = 64 << 10


def is_answered(name: str, config_class: str) -> bool:
    """Whether the first argument asks for it; then it is answered, and the process ends: 0 = ready,
    else why not, on standard error. So it is False where it returns. `config_class`: where it
    stands, `module:Name`."""
    if sys.argv[1:2] != [ARGUMENT]:
        return False
    if sys.argv[2:] or os.environ.get("TIDELOG_CONFIG"):
        data_dir = _configured(name, pkgutil.resolve_name(config_class))
    else:
        named = f"TIDELOG_{name.upper()}_DATA_DIR"
        data_dir = os.environ.get(named) or os.environ.get("TIDELOG_DATA_DIR") or ""
    sys.exit(health(data_dir or f"data/{name}"))


def _configured(name: str, config_class: type[ServiceConfig]) -> str:
    """`data-dir` by flags and a file; the process ends where they are wrong or ask for help."""
    from tidelog.config import HelpRequested, load

    try:
        return load(config_class, name, sys.argv[2:], os.environ).data_dir
    except HelpRequested as help_text:
        sys.stdout.write(f"{help_text.message}\n")
        sys.exit(EXIT_OK)
    except TidelogError as error:
        sys.stderr.write(f"tidelog-{name}: {error}\n")
        sys.exit(exit_code(error))


def health(data_dir: str) -> int:
    """0 if the service that runs in this data directory says it is ready; else 1, and why."""
    addr = ""
    try:
        addr = (Path(data_dir) / HTTP_FILE).read_text(encoding="utf-8").strip()
        status, said = _ask(addr)
        if status == 200:
            return EXIT_OK
        said = said.strip() or f"not ready: {addr} answers with {status}"
    except OSError as error:
        who = f"nobody answers at {addr}" if addr else f"nothing runs in {data_dir}"
        said = f"not ready: {who} ({error})"
    except ValueError as error:
        said = f"not ready: what answers at {addr} is no service ({error})"
    sys.stderr.write(f"{said}\n")
    return EXIT_FAILED


def _ask(addr: str) -> tuple[int, str]:
    """What `/readyz` at HOST:PORT says, after its status. OSError: nothing; ValueError: no HTTP."""
    host, _, port = addr.rpartition(":")
    answer = bytearray()
    with socket.create_connection((host.strip("[]"), int(port)), ANSWER_S) as connection:
        connection.sendall(f"GET /readyz HTTP/1.0\r\nHost: {addr}\r\n\r\n".encode())
        while len(answer) < MAX_ANSWER and (more := connection.recv(4096)):
            answer += more
    head, _, body = answer.decode(errors="replace").partition("\r\n\r\n")
    protocol, _, status = head.partition(" ")
    if not protocol.startswith("HTTP/"):
        raise ValueError("it does not speak HTTP")
    return int(status[:3]), body
