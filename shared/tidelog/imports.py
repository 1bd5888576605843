"""What a service spares itself at its start."""

from __future__ import annotations

import gc
import sys


def hurry() -> None:
    """Called before a service is imported. No collection meanwhile: what is imported stays, `main`
    freezes it and has the rest collected. No rich, which structlog takes wherever it is installed,
    for a traceback that ours don't have: with all that it takes itself it was a fifth of what a
    service imports."""
    gc.disable()
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
