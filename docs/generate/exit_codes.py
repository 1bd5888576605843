"""docs/reference/exit-codes.md: the tree of errors, and what each is to other processes."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import tidelog
import tidelog_cli
import tidelog_drainer
import tidelog_pump
import tidelog_registry
from docs.generate.markdown import WRITTEN, code, table
from tidelog import errors
from tidelog.errors import TidelogError, exit_code
from tidelog.routes import status_of
from tidelog_pump.edges.grpc_status import status_code

PACKAGES = (tidelog, tidelog_registry, tidelog_pump, tidelog_drainer, tidelog_cli)
EXITS = (
    (errors.EXIT_OK, "done; a service: stopped in order"),
    (
        errors.EXIT_FAILED,
        "refused, or what was compared differs; a service: its loop stood still for two minutes",
    ),
    (2, "an option or argument that the command line does not know"),
    (errors.EXIT_USAGE, "input that can't be used, or a directory in use"),
    (errors.EXIT_UNAVAILABLE, "nobody answers, or the time is over"),
    (errors.EXIT_RESTART, "a typed stop, or damage found: a service is to be started again"),
    (errors.EXIT_CONFIG, "the configuration is wrong: starting again changes nothing"),
    (129, "a command that SIGHUP ended: its terminal was closed"),
    (130, "a command that Ctrl-C ended"),
    (143, "a command that SIGTERM ended"),
)
INTRODUCTION = """# Exit codes and errors

"""
ERRORS = """## Errors

Each error is a class; those below it are kinds of it. Its name is `code` in the JSON of HTTP and
NATS answers, and in the metadata `tidelog-error` of gRPC. *Definite* means that what was asked
for surely did not happen, so that it may be tried elsewhere; otherwise nobody knows. The hint is
what is told if the place that raises it knows nothing better.
"""


def page() -> str:
    _import_all()
    exits = [(code(str(number)), what) for number, what in EXITS]
    head = ("error", "means", "exit code", "gRPC", "HTTP", "definite", "hint")
    parts = [WRITTEN, INTRODUCTION + table(("code", "of a command or a service"), exits), ERRORS]
    return "\n".join([*parts, table(head, _rows(TidelogError, 0))])


def _import_all() -> None:
    """A class is known once its module is imported. What needs Spark has no errors that travel."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def _rows(cls: type[TidelogError], depth: int) -> Iterator[tuple[str, ...]]:
    error = cls.__new__(cls)
    TidelogError.__init__(error, "")
    yield (
        "&nbsp;" * 3 * depth + code(cls.__name__),
        _first_sentence(cls),
        str(exit_code(error)),
        status_code(error).name,
        str(status_of(error)),
        "yes" if cls.definite else "no",
        cls.default_hint,
    )
    for kind in sorted(cls.__subclasses__(), key=lambda kind: kind.__name__):
        if kind.__module__.partition(".")[0] in {package.__name__ for package in PACKAGES}:
            yield from _rows(kind, depth + 1)


def _first_sentence(cls: type[TidelogError]) -> str:
    text = " ".join((cls.__dict__.get("__doc__") or "").split())
    return text.partition(". ")[0].rstrip(".")
