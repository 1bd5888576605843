"""Certificates as `tidelog certs` makes and keeps them."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tidelog.errors import ConfigError
from tidelog.real.nats_access import tls_context
from tidelog.real.pem import Pem, read_pem
from tidelog.security.access import NatsAccess
from tidelog.security.identities import IDENTITIES
from tidelog.security.tls import TlsFiles
from tidelog_cli import certs
from tidelog_cli.cert_files import grpc_files, nats_access


def made(directory: Path, *hosts: str) -> dict[str, certs.Certificate]:
    return {one.name: one for one in asyncio.run(certs.make(directory, hosts))}


def test_each_identity_has_one_by_its_name(tmp_path: Path) -> None:
    found = made(tmp_path, "pumps.example", "10.0.0.7")
    assert set(found) == {*IDENTITIES, "nats"}
    assert found["writer"].names == ["writer"]
    assert {"pumps.example", "10.0.0.7", "localhost", "127.0.0.1"} <= set(found["pump"].names)
    for name in found:
        assert os.stat(tmp_path / name / "key.pem").st_mode & 0o777 == 0o600
        assert read_pem(grpc_files(tmp_path, name)).cert
        assert tls_context(nats_access(tmp_path, name)).minimum_version == ssl.TLSVersion.TLSv1_2


def test_what_is_good_stays_and_another_host_makes_only_servers_anew(tmp_path: Path) -> None:
    made(tmp_path)
    assert not any(one.made for one in made(tmp_path).values())
    anew = {name for name, one in made(tmp_path, "more.example").items() if one.made}
    assert anew == {"pump", "nats"}


def test_without_its_authority_all_is_made_anew(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "ca.pem").unlink()
    assert all(one.made for one in made(tmp_path).values())


def test_only_servers_may_be_servers(tmp_path: Path) -> None:
    found = made(tmp_path)
    server = x509.oid.ExtendedKeyUsageOID.SERVER_AUTH
    may = set()
    for name, one in found.items():
        read = x509.load_pem_x509_certificate(Path(one.file).read_bytes())
        if server in read.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value:
            may.add(name)
    assert may == {"nats", "pump"}


@pytest.mark.parametrize(
    ("cert", "key", "names"), [("c", "", ()), ("", "k", ()), ("", "", ("a",)), ("c", "k", ("a",))]
)
def test_halves_are_refused(cert: str, key: str, names: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        TlsFiles(ssl_cert=cert, ssl_key=key, cert_allowed_cn=names)


def test_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    made(tmp_path)
    cert, key = str(tmp_path / "pump/cert.pem"), str(tmp_path / "drainer/key.pem")
    with pytest.raises(ConfigError, match="key values mismatch") as raised:
        read_pem(TlsFiles(ssl_cert=cert, ssl_key=key))
    assert key in str(raised.value)
    with pytest.raises(ConfigError, match="key values mismatch"):
        tls_context(NatsAccess(nats_cert=cert, nats_key=key))
    with pytest.raises(ConfigError, match="can't be"):
        read_pem(TlsFiles(ssl_ca=str(tmp_path / "nothing")))
    with pytest.raises(ConfigError, match="can't be"):
        tls_context(NatsAccess(nats_ca=key))


def test_an_authority_that_is_none_is_named(tmp_path: Path) -> None:
    made(tmp_path)
    good = grpc_files(tmp_path, "pump")
    (tmp_path / "other.pem").write_text("-----BEGIN NOTHING-----")
    with pytest.raises(ConfigError, match=r"ssl-ca .*other\.pem can't be used"):
        read_pem(TlsFiles(ssl_ca=str(tmp_path / "other.pem")))
    with pytest.raises(ConfigError, match=r"none\.pem can't be read"):
        read_pem(TlsFiles(ssl_ca=str(tmp_path / "none.pem")))
    with pytest.raises(ConfigError, match="can't be used") as refused:
        read_pem(TlsFiles(ssl_ca=good.ssl_ca, ssl_cert=good.ssl_cert, ssl_key=good.ssl_ca))
    assert "its own key" in refused.value.hint
    with pytest.raises(ConfigError, match="can't be used: No such file"):
        tls_context(NatsAccess(nats_ca=str(tmp_path / "none.pem")))


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked(tmp_path: Path) -> None:
    """OpenSSL would ask on the terminal, if there is one, and wait."""
    made(tmp_path)
    cert, key = tmp_path / "pump/cert.pem", tmp_path / "pump/key.pem"
    plain = serialization.load_pem_private_key(key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"canary")
    form = serialization.PrivateFormat.PKCS8
    key.write_bytes(plain.private_bytes(serialization.Encoding.PEM, form, locked))
    for load in (
        lambda: read_pem(TlsFiles(ssl_cert=str(cert), ssl_key=str(key))),
        lambda: tls_context(NatsAccess(nats_cert=str(cert), nats_key=str(key))),
    ):
        with pytest.raises(ConfigError, match="can't be used") as refused:
            load()
        assert "without a passphrase" in refused.value.hint


def test_what_is_read_of_a_key_is_never_shown(tmp_path: Path) -> None:
    made(tmp_path)
    files = grpc_files(tmp_path, "pump")
    assert "PRIVATE" in (read_pem(files).key or b"").decode()
    assert "PRIVATE" not in f"{read_pem(files)!r} {read_pem(files)}"


def test_without_files_nobody_reads_whom_the_machine_trusts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each process that asks Pumps would, at its start."""

    def read(*_: object, **__: object) -> None:
        raise AssertionError("they were read")

    monkeypatch.setattr(ssl, "create_default_context", read)
    assert read_pem(TlsFiles()) == Pem(None, None, None)
