"""What a rig of real processes says of a promise that was broken."""

from __future__ import annotations

STUCK_S = 60.0
"""Nothing moves for so long: that is wrong, too."""


class Wrong(AssertionError):
    """A promise was broken."""
