"""docs/reference/metrics.md: what each service's /metrics has, from the registry of a process that
has imported what the service's process imports."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from docs.generate.markdown import WRITTEN, code, table

EVERYWHERE = ("tidelog.service",)
BESIDE = {"applier": ("tidelog.downstreams.metrics",)}
"""What a service imports when it needs it."""
SERVICES = ("registry", "pump", "drainer", "applier", "backfill")
HEAD = ("name", "type", "labels", "what")
INTRODUCTION = """# Metrics

Each service serves them on its `http-addr` under `/metrics`, for Prometheus. Names with `binlog_`
are those of TiDB Binlog, where they mean the same. A histogram has `_bucket`, `_sum` and
`_count`.
"""
Metric = tuple[str, str, str, str]


def page() -> str:
    found = of_all()
    everywhere = set.intersection(*map(set, found.values()))
    parts = [WRITTEN, INTRODUCTION, "## Every service\n", _table(everywhere)]
    for service, metrics in found.items():
        parts += [f"## {service.capitalize()}\n", _table(set(metrics) - everywhere)]
    return "\n".join(parts)


def _table(metrics: set[Metric]) -> str:
    rows = [(code(name), kind, labels, what) for name, kind, labels, what in sorted(metrics)]
    return table(HEAD, rows) if rows else "None of its own.\n"


@cache
def of_all() -> Mapping[str, list[Metric]]:
    """Each in a process of its own, all at once: a registry forgets nothing."""
    processes = {
        service: subprocess.Popen(
            [sys.executable, "-m", "docs.generate.metrics", service],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        for service in SERVICES
    }
    found: dict[str, list[Metric]] = {}
    for service, process in processes.items():
        out, _ = process.communicate()
        assert process.returncode == 0, service
        found[service] = [tuple(metric) for metric in json.loads(out)]
    return found


def metrics_of(service: str) -> list[Metric]:
    """What this process' default registry has once the service is imported. Collectors of the
    client library itself (the process, the interpreter) are not ours."""
    for module in (*EVERYWHERE, f"tidelog_{service}.service", *BESIDE.get(service, ())):
        importlib.import_module(module)
    import prometheus_client as library

    theirs = (library.PROCESS_COLLECTOR, library.PLATFORM_COLLECTOR, library.GC_COLLECTOR)
    collectors: dict[Any, list[str]] = library.REGISTRY._collector_to_names
    found = []
    for collector in collectors:
        if collector not in theirs:
            for family in collector.describe():
                named = getattr(collector, "_labelnames", ()) or getattr(family, "_labelnames", ())
                labels = ", ".join(named)
                total = "_total" if family.type == "counter" else ""
                found.append((family.name + total, family.type, labels, family.documentation))
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(metrics_of(sys.argv[1])))
