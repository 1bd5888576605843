"""A job's process, as `python -m tidelog_backfill run JOB.json`, in which every step of a replay is
one of Spark's, however few rows it has: `python -m tests.spark.small_steps JOB.json`."""

import sys

from tidelog_backfill.jobs.runner import run_job
from tidelog_backfill.replay import step

if __name__ == "__main__":
    step.SMALL_BYTES = 0
    step.LEAST_BYTES = step.TASK_BYTES = 64 << 10
    step.BUCKET_BYTES = 16 << 10
    sys.exit(run_job(sys.argv[1:]))
