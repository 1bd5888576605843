"""All schedules, by the bug that each leads into the open."""

from __future__ import annotations

from tests.planted import applier_schedules, drainer_schedules, pump_schedules
from tests.planted.schedule import Schedule, calm

__all__ = ["BY_BUG", "SCHEDULES", "Schedule", "calm"]

SCHEDULES = (
    *pump_schedules.SCHEDULES,
    *drainer_schedules.SCHEDULES,
    *applier_schedules.SCHEDULES,
)
BY_BUG = {schedule.bug: schedule for schedule in SCHEDULES}
