"""`python -m tidelog_backfill`: the service; with `health`: is the one that runs ready? With `run
JOB.json`: one job, here and now."""

import sys

from tidelog.health import is_answered
from tidelog.imports import hurry

if __name__ == "__main__" and sys.argv[1:2] == ["run"]:
    from tidelog_backfill.jobs.runner import run_job

    sys.exit(run_job(sys.argv[2:]))
if __name__ == "__main__" and not is_answered("backfill", "tidelog_backfill.config:BackfillConfig"):
    hurry()
    from tidelog.service import main
    from tidelog_backfill.config import BackfillConfig
    from tidelog_backfill.service import build

    main("backfill", BackfillConfig, build)
