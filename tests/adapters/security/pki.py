"""Authorities and certificates of every kind, made when a test runs."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HOST = "127.0.0.1"
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
DAY = timedelta(days=1)


class Pair(NamedTuple):
    """Paths of PEM files."""

    cert: str
    key: str


class Authority:
    """Signs what it is asked to; `under`: who vouches for it, None = itself."""

    def __init__(self, directory: Path, name: str, under: Authority | None = None) -> None:
        self._directory = directory
        self._name = _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        issuer, key = (under._name, under._key) if under else (self._name, self._key)
        usage = x509.KeyUsage(
            *(False,) * 5, key_cert_sign=True, crl_sign=True,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        signed = (
            _begun(self._name, issuer, self._key, (-1, 10))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        self.ca = _written(directory / f"{name}-ca.pem", signed)

    def issue(
        self,
        cn: str,
        names: Sequence[str] = (HOST,),
        *,
        days: tuple[int, int] = (-1, 1),
        uses: Sequence[x509.ObjectIdentifier] = (SERVER, CLIENT),
        itself: bool = False,
    ) -> Pair:
        """`days`: from when to when, from now on. `itself`: signed by its own key."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer, by = (_name(cn), key) if itself else (self._name, self._key)
        signed = (
            _begun(_name(cn), issuer, key, days)
            .add_extension(x509.ExtendedKeyUsage(list(uses)), critical=False)
            .add_extension(x509.SubjectAlternativeName(list(map(_alternative, names))), False)
            .sign(by, hashes.SHA256())
        )
        stem = f"{x509.random_serial_number():x}"
        path = self._directory / f"{stem}-key.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return Pair(_written(self._directory / f"{stem}.pem", signed), str(path))


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: tuple[int, int]
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + days[0] * DAY)
        .not_valid_after(now + days[1] * DAY)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _written(path: Path, certificate: x509.Certificate) -> str:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return str(path)
