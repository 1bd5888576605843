"""`python -m tidelog_backfill`: the service. `… run JOB.json`: one job, here and now."""

import sys

from tidelog.service import main
from tidelog_backfill.config import BackfillConfig
from tidelog_backfill.jobs.runner import run_job
from tidelog_backfill.service import build

if sys.argv[1:2] == ["run"]:
    sys.exit(run_job(sys.argv[2:]))
main("backfill", BackfillConfig, build)
