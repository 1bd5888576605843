"""The backfill service: what `python -m tidelog_backfill` and the simulator run."""

from __future__ import annotations

from pathlib import Path

from tidelog import node_routes
from tidelog.bulk.process import JobProcesses
from tidelog.ports import Ports
from tidelog.real.processes import RealProcesses
from tidelog.supervisor import Supervisor
from tidelog_backfill.config import BackfillConfig
from tidelog_backfill.jobs.keeper import JobKeeper, Runner
from tidelog_backfill.jobs.spec import DOWNSTREAM_PASSWORD, SOURCE_PASSWORD

JOBS = "jobs"
"""In the data directory: each job's files."""


def build(config: BackfillConfig, ports: Ports, runner: Runner | None = None) -> Supervisor:
    """`runner`: who does the jobs, if not a process of their own each."""
    does = runner or processes(config, ports)
    tree = Supervisor("backfill")
    tree.actor("jobs", lambda: JobKeeper(config, ports, does))
    node_routes.add(tree, ports.bus, config.cluster)
    return tree


def processes(config: BackfillConfig, ports: Ports) -> JobProcesses:
    """Passwords reach a job's process by its environment only."""
    passwords = {
        DOWNSTREAM_PASSWORD: config.downstream_password.reveal(),
        SOURCE_PASSWORD: config.source_password.reveal(),
    }
    home = Path(config.data_dir).resolve() / JOBS
    disk = ports.within(JOBS).disk
    return JobProcesses(RealProcesses(), disk, ports.clock, home, env=passwords)
