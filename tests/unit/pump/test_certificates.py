"""The certificates of a Pump's gRPC edge are read again before each handshake. gRPC asks for them
in a thread of its own; here it is asked as gRPC does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from tests.adapters.security.pki import Authority, Pair
from tidelog.errors import ConfigError
from tidelog.security.tls import TlsFiles
from tidelog_pump.edges.grpc_tls import server_credentials

Fetch = Callable[[], object]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Fetch]:
    """What gRPC was given to ask."""
    given: list[Fetch] = []

    def credentials(_: object, fetch: Fetch, **__: Any) -> None:
        given.append(fetch)

    monkeypatch.setattr(grpc, "dynamic_ssl_server_credentials", credentials)
    return given


def put(directory: Path, pair: Pair) -> TlsFiles:
    for source, name in zip(pair, ("cert", "key"), strict=True):
        (directory / name).write_bytes(Path(source).read_bytes())
    return TlsFiles(ssl_cert=str(directory / "cert"), ssl_key=str(directory / "key"))


def test_new_ones_are_given_once_and_what_can_t_be_used_is_told_once(
    tmp_path: Path, asked: list[Fetch]
) -> None:
    authority, own = Authority(tmp_path, "ours"), tmp_path / "own"
    own.mkdir()
    server_credentials(put(own, authority.issue("pump")))
    (fetch,) = asked
    with capture_logs() as said:
        assert fetch() is None, "nothing has changed"
        put(own, authority.issue("pump"))
        assert fetch() is not None
        assert fetch() is None
        (own / "key").unlink()
        assert [fetch(), fetch()] == [None, None]
        (own / "key").write_text("no key")
        assert fetch() is None
        put(own, authority.issue("pump"))
        assert fetch() is not None
    words = [one["event"].split(" ")[0] for one in said]
    assert words == ["new", "the", "the", "new"], "each kind of trouble once"


def test_an_authority_alone_is_no_server(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ssl-cert and ssl-key beside it") as refused:
        server_credentials(TlsFiles(ssl_ca=Authority(tmp_path, "ours").ca))
    assert refused.value.hint == "set all three"
