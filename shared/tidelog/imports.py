"""What a process spares itself at its start."""

from __future__ import annotations

import gc
import os
import sys

TRUSTED = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def hurry() -> None:
    """Called before a service is imported. No collection meanwhile: what is imported stays, `main`
    freezes it and has the rest collected. No rich, which structlog takes wherever it is installed,
    for a traceback that ours don't have: with all that it takes itself it was a fifth of what a
    service imports."""
    gc.disable()
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
    spare_certificates()


def spare_tracebacks() -> None:
    """structlog takes rich's tracebacks, which ours don't have; a command, which shows tables by
    the rest of rich, is a fourteenth shorter without."""
    before = sys.modules.get("rich.traceback")
    sys.modules["rich.traceback"] = None  # type: ignore[assignment]
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich.traceback"]
        if before is not None:
            sys.modules["rich.traceback"] = before


def spare_certificates() -> None:
    """aiohttp reads all certificates that the machine trusts where it is imported, twice, for
    contexts that nothing of ours uses: a seventh of a service's start. It is imported here, while
    there are none; whoever trusts them makes a context of its own."""
    before = {name: os.environ.get(name) for name in TRUSTED}
    os.environ.update(dict.fromkeys(TRUSTED, os.devnull))
    try:
        import aiohttp  # noqa: F401
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
