"""An error crosses processes as what it is, whatever its class's constructor takes."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

import tidelog
import tidelog_backfill
from tidelog.bulk.told import Failed, decode_line, encode_line
from tidelog.errors import EXIT_RESTART, EXIT_USAGE, TidelogError, exit_code


def _all_classes() -> list[type[TidelogError]]:
    for package in (tidelog, tidelog_backfill):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    own = (cls for cls in _below(TidelogError) if cls.__module__.startswith("tidelog"))
    return sorted(set(own), key=lambda cls: cls.__qualname__)


def _below(cls: type[TidelogError]) -> Iterator[type[TidelogError]]:
    for one in cls.__subclasses__():
        yield one
        yield from _below(one)


def _crossed(failed: Failed) -> TidelogError:
    line = decode_line(encode_line(failed))
    assert isinstance(line, Failed)
    return line.error()


@pytest.mark.parametrize("cls", _all_classes(), ids=lambda cls: cls.__qualname__)
def test_an_error_of_any_class_crosses(cls: type[TidelogError]) -> None:
    error = cls.__new__(cls)
    TidelogError.__init__(error, "what", hint="do it")
    found = _crossed(Failed.of(error))
    assert type(found) is cls
    assert (str(found), exit_code(found)) == (str(error), exit_code(error))


@pytest.mark.parametrize(
    ("base", "code"), [("BadInput", EXIT_USAGE), ("Stopped", EXIT_RESTART), ("TidelogError", 1)]
)
def test_a_class_that_is_not_known_here_is_as_its_base(base: str, code: int) -> None:
    told = Failed("OfAnotherProcess", "what", "do it", code, [base, "TidelogError"])
    found = _crossed(told)
    assert type(found).__name__ == base
    assert exit_code(found) == code
    again = Failed.of(found)
    assert (again.code, again.bases[0]) == ("OfAnotherProcess", base)


def test_who_imports_little_does_not_take_a_stop_for_what_passes() -> None:
    from tidelog.decode.errors import Undecodable

    line = encode_line(Failed.of(Undecodable(7, "no")))
    script = (
        "from tidelog.bulk.told import decode_line; from tidelog.errors import Stopped;"
        f"assert isinstance(decode_line({line!r}).error(), Stopped)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
