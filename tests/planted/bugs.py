"""Every planted bug. Each breaks one safety step by a small edit of the sources; what notices it is
in schedules.py, noticed.py and killed.py. (The crash states' own are in tests/crash/mutations.py.)
"""

from __future__ import annotations

from tests.planted import applier_bugs, drainer_bugs, library_bugs, pump_bugs, upstream_bugs

BUGS = (
    *pump_bugs.BUGS,
    *drainer_bugs.BUGS,
    *applier_bugs.BUGS,
    *library_bugs.BUGS,
    *upstream_bugs.BUGS,
)
BY_NAME = {bug.name: bug for bug in BUGS}
