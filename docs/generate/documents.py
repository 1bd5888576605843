"""Which documents are generated, and by what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.generate import (
    asyncapi,
    cli,
    config,
    exit_codes,
    metrics,
    original_keys,
    original_metrics,
    subjects,
)

ROOT = Path(__file__).parents[2]
DOCUMENTS: Mapping[str, Callable[[], str]] = {
    "docs/reference/config.md": config.page,
    "docs/reference/metrics.md": metrics.page,
    "docs/reference/subjects.md": subjects.page,
    "docs/reference/exit-codes.md": exit_codes.page,
    "docs/reference/cli.md": cli.page,
    "docs/reference/original-keys.md": original_keys.page,
    "docs/reference/original-metrics.md": original_metrics.page,
    "docs/asyncapi.yaml": asyncapi.page,
}
