"""What a process holds in memory, as a figure."""

from __future__ import annotations

from pathlib import Path

from bench.figure import Figure, Limit

SECTION = "memory"
AIM = 200.0
"""MiB over the message itself."""


def resident(pid: int, field: str) -> float:
    """MiB: VmRSS now, VmHWM at most so far."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def forget_peak(pid: int) -> None:
    """VmHWM begins anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def itself(before: float) -> Limit:
    """What the process takes with nothing to do: no figure of memory says much without it."""
    return Limit("the same process before", before, "MiB")


def grown(name: str, peak: float, before: float) -> Figure:
    return Figure(
        SECTION,
        name,
        peak - before,
        "MiB",
        itself(before),
        aim=AIM,
        lower_is_better=True,
        bound=True,
        note=f"peak {peak:.0f} MiB, before {before:.0f} MiB",
    )
