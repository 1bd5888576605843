"""A service's Ports on the machine: what is not installed, or not this service's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import pytest

from tidelog.config import ServiceConfig
from tidelog.downstream import DownstreamOptions
from tidelog.errors import ConfigError
from tidelog.ports import Bus, Ports
from tidelog.real.disk import RealDisk
from tidelog.real.ports import real_ports


def ports(directory: Path) -> Ports:
    return real_ports(ServiceConfig(), RealDisk(directory), cast(Bus, None))


def test_a_service_without_a_downstream_says_so_and_no_password(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no downstream") as caught:
        ports(tmp_path).open_downstream(DownstreamOptions(url="mysql://root:canary@db/"))
    assert "canary" not in str(caught.value)


def test_without_rocksdict_it_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tidelog.real.index", None)
    with pytest.raises(ConfigError, match="rocksdict is not installed") as caught:
        ports(tmp_path).open_index("index")
    assert "pip install" in caught.value.hint
    assert not list(tmp_path.iterdir())


def test_an_index_is_dropped_with_all_that_is_in_it(tmp_path: Path) -> None:
    found = ports(tmp_path).within("inner")
    index = found.open_index("index")
    index.write([(b"k", b"v")])
    index.close()
    found.drop_index("index")
    assert not list((tmp_path / "inner").iterdir())
    again = found.open_index("index")
    assert again.get(b"k") is None
    again.close()
