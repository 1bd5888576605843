"""An authority and certificates of its own, for trying out TLS: who has an authority uses that.

DIR/ca.pem, DIR/ca-key.pem         the authority; its key signs, and is nobody else's
DIR/<identity>/{cert,key}.pem      of each identity, by its name
DIR/nats/{cert,key}.pem            of the NATS server
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tidelog.errors import Corrupt
from tidelog.real.clock import RealClock
from tidelog.real.disk import RealDisk
from tidelog.security.identities import IDENTITIES, PUMP
from tidelog_cli.cert_files import CA, CERT, KEY, NATS

CA_KEY = "ca-key.pem"
AUTHORITY, DAYS = timedelta(days=3650), timedelta(days=397)
RENEWED_BEFORE = timedelta(days=30)
EARLIER = timedelta(hours=1)
"""A clock that is behind ours by so much believes a new certificate, too."""
HERE = ("localhost", "127.0.0.1", "::1")
_SERVERS, _CLIENTS = (NATS, PUMP), (*IDENTITIES,)


class Certificate(msgspec.Struct, frozen=True):
    """The documented JSON form."""

    name: str
    file: str
    names: list[str]
    until: str
    made: bool


async def make(directory: Path, hosts: Sequence[str] = ()) -> list[Certificate]:
    """For each identity and the NATS server, good at `hosts` and on this machine. What is there
    stays while it is good for 30 days and names all of them. Raises Corrupt."""
    disk = RealDisk(directory)
    now = datetime.fromtimestamp(RealClock().wall_ms() / 1000, UTC)
    authority, anew = await _authority(disk, now)
    found = []
    for name in (*IDENTITIES, NATS):
        names = [name, *HERE, *hosts] if name in _SERVERS else [name]
        found.append(await _certificate(disk, name, names, authority, now, anew=anew))
    return found


class _Authority(msgspec.Struct, frozen=True):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


async def _authority(disk: RealDisk, now: datetime) -> tuple[_Authority, bool]:
    """And whether it is a new one."""
    if disk.exists(CA) and disk.exists(CA_KEY):
        try:
            key = serialization.load_pem_private_key(disk.read_file(CA_KEY), None)
            certificate = x509.load_pem_x509_certificate(disk.read_file(CA))
        except (ValueError, TypeError) as error:
            hint = "delete both, and what was made of them is made anew"
            raise Corrupt(f"{disk.path(CA)} or its key can't be read", hint=hint) from error
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return _Authority(certificate, key), False
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("Tidelog, for trying out")
    usage = x509.KeyUsage(*(False,) * 5, key_cert_sign=True, crl_sign=True,
                          encipher_only=False, decipher_only=False)  # fmt: skip
    certificate = (
        _begun(name, name, key, now, AUTHORITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    await disk.write_file(CA_KEY, _pem_of_key(key))
    await disk.write_file(CA, _pem(certificate))
    return _Authority(certificate, key), True


async def _certificate(
    disk: RealDisk,
    name: str,
    names: Sequence[str],
    authority: _Authority,
    now: datetime,
    *,
    anew: bool,
) -> Certificate:
    path = f"{name}/{CERT}"
    kept = None if anew else _kept(disk, path, names, now)
    if kept is None:
        key = ec.generate_private_key(ec.SECP256R1())
        kept = _signed(name, names, key, authority, now)
        disk.mkdir(name)
        await disk.write_file(f"{name}/{KEY}", _pem_of_key(key))
        await disk.write_file(path, _pem(kept))
        anew = True
    until = kept.not_valid_after_utc.isoformat()
    return Certificate(name, str(disk.path(path)), _names_of(kept), until, anew)


def _kept(
    disk: RealDisk, path: str, names: Sequence[str], now: datetime
) -> x509.Certificate | None:
    if not disk.exists(path):
        return None
    found = x509.load_pem_x509_certificate(disk.read_file(path))
    if found.not_valid_after_utc - now < RENEWED_BEFORE or set(names) - set(_names_of(found)):
        return None
    return found


def _signed(
    name: str,
    names: Sequence[str],
    key: ec.EllipticCurvePrivateKey,
    authority: _Authority,
    now: datetime,
) -> x509.Certificate:
    uses = [ExtendedKeyUsageOID.SERVER_AUTH] * (name in _SERVERS)
    uses += [ExtendedKeyUsageOID.CLIENT_AUTH] * (name in _CLIENTS)
    alternatives = x509.SubjectAlternativeName([_alternative(one) for one in names])
    vouching = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    return (
        _begun(_name(name), authority.certificate.subject, key, now, DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(alternatives, critical=False)
        .add_extension(vouching, critical=False)
        .sign(authority.key, hashes.SHA256())
    )


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    lasts: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + lasts)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names_of(certificate: x509.Certificate) -> list[str]:
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(one.value) for one in found]


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
