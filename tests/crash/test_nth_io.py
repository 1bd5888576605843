"""Every I/O call of a Pump's life fails once, in every way."""

from __future__ import annotations

import pytest

from tests.crash.nth import AFTER, DISK_KINDS, KV, Ended, fail

LIVES_ON = {"value/closed", "purged.json", ".node", "reserve"}
"""On a full disk: without its catalog or a reserve; with what the reserve gave."""


def every(kind: str, after: str) -> list[Ended]:
    """Until the life has no n-th call any more."""
    found: list[Ended] = []
    while True:
        ended = fail(len(found) + 1, kind, after)
        if not ended.reached:
            assert not ended.error
            return found
        found.append(ended)


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("kind", [*DISK_KINDS, KV])
def test_the_nth_call_fails(kind: str, after: str) -> None:
    found = every(kind, after)
    assert len(found) > (20 if kind == KV else 80)
    for ended in found:
        if ended.error:
            assert ended.error in (("IoFailed", "DiskFull") if kind == "full" else ("IoFailed",))
        elif ended.failed:
            assert kind == "full"
            assert ended.failed in LIVES_ON
