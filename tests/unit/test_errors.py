"""An error travels by the name of its class, so no two have one."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter

import tidelog
import tidelog_applier
import tidelog_backfill
import tidelog_cli
import tidelog_drainer
import tidelog_pump
import tidelog_registry
from tidelog.errors import TidelogError, told_error

PACKAGES = (
    tidelog,
    tidelog_applier,
    tidelog_backfill,
    tidelog_cli,
    tidelog_drainer,
    tidelog_pump,
    tidelog_registry,
)


def test_each_name_is_one_class_and_can_be_made_from_a_reply() -> None:
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    classes = [TidelogError]
    for cls in classes:
        classes += [one for one in cls.__subclasses__() if one.__module__.startswith("tidelog")]
    names = Counter(cls.__name__ for cls in set(classes))
    assert [name for name, count in names.items() if count > 1] == []
    assert len(names) > 20
    assert told_error(["Refused"], "no", hint="later").hint == "later"
