"""A private certificate authority for tests, by the openssl command."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Authority:
    """Its certificate is `ca`; `issue` makes a key and a certificate that it signed."""

    def __init__(self, directory: Path, name: str = "tests") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.ca = directory / "ca.pem"
        self._key = directory / "ca.key"
        _openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"),
            *("-subj", f"/CN={name}", "-keyout", str(self._key), "-out", str(self.ca)),
        )

    def issue(self, name: str, alternative: str) -> tuple[Path, Path]:
        """Certificate and key; `alternative` as `IP:127.0.0.1` or `DNS:db.example`."""
        request, key, cert, more = (
            self._directory / f"{name}.{end}" for end in ("csr", "key", "pem", "ext")
        )
        more.write_text(f"subjectAltName={alternative}\n")
        _openssl(
            *("req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", str(key), "-out", str(request)),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-days", "30", "-extfile", str(more)),
            *("-CA", str(self.ca), "-CAkey", str(self._key), "-CAcreateserial", "-out", str(cert)),
        )
        return cert, key


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr.decode()[-1000:]}")
