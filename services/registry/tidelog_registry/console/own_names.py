"""By which names the console is asked for.

A page of another name can have that name lead to our address, and then read ours as its own ("DNS
rebinding"): so also where only this machine's browsers come. An address can't be led anywhere.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

REFUSED = (
    "The console is not known by this name. Ask by its address, or have the registry's "
    "console-hosts name it.\n"
)


class OwnNames:
    """Hands on to the app what is asked by an address, `localhost` or one of `hosts`."""

    def __init__(self, inner: ASGIApp, hosts: Sequence[str]) -> None:
        self._inner = inner
        self._hosts = frozenset(host.lower() for host in ("localhost", *hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_ours(Headers(scope=scope).getlist("host")):
            await PlainTextResponse(REFUSED, status_code=421)(scope, receive, send)
            return
        await self._inner(scope, receive, send)

    def _is_ours(self, named: list[str]) -> bool:
        if len(named) != 1:
            return False
        name = host_of(named[0])
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name.removesuffix(".") in self._hosts
        return True


def host_of(named: str) -> str:
    """Of a `Host` header, without its port, in lower case."""
    host, colon, port = named.strip().rpartition(":")
    if not colon or not (port.isdecimal() or not port):
        host = named.strip()
    return host.removeprefix("[").removesuffix("]").lower()
