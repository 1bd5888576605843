"""Which sources a record is of."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDS = ":!tests/*.json"
"""Files that suites write what they found into are no sources."""


def commit() -> str:
    """As `399c450`, or `399c450-dirty` with changes in it; `unknown` where git doesn't tell."""
    told = _git("describe", "--always")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", RECORDS)
    return f"{told}-dirty" if told and changed else told or "unknown"


def _git(*asked: str) -> str:
    told = subprocess.run(["git", *asked], cwd=ROOT, capture_output=True, text=True, check=False)
    return told.stdout.strip()
