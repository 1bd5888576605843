"""What a process spares itself at its start is missing nowhere later."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tidelog.imports import TRUSTED, spare_certificates

LOADED = """
from tidelog.imports import hurry
hurry()
import ssl
from aiohttp import connector
trusted = [connector._SSL_CONTEXT_VERIFIED, ssl.create_default_context()]
print([context.get_ca_certs() != [] for context in trusted])
"""


def test_certificates_are_left_out_of_what_nobody_uses_and_found_by_who_asks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[False, True]"


@pytest.mark.parametrize("before", [None, "/etc/own.pem"])
def test_whom_the_environment_trusts_stays(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in TRUSTED:
        monkeypatch.delenv(name, raising=False)
        if before is not None:
            monkeypatch.setenv(name, before)
    spare_certificates()
    assert [os.environ.get(name) for name in TRUSTED] == [before] * len(TRUSTED)
