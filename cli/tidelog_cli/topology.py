"""The whole topology as child processes of one supervisor (`tidelog up`, `tidelog demo`).

A child that refuses its configuration before it was ever ready ends the whole start with its own
words.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tidelog.errors import ConfigError, DiskFull, ForeignDirectory, Unavailable
from tidelog.ports import Lock, Processes
from tidelog.real.disk import RealDisk
from tidelog.real.nats_server import EmbeddedNats, free_port
from tidelog.security.access import NatsAccess
from tidelog.security.identities import ADMIN, PUMP
from tidelog.security.tls import TlsFiles
from tidelog_cli import cert_files, feed, keys, state_file
from tidelog_cli.child import BACKOFF_S, Child, Service
from tidelog_cli.connect import connected
from tidelog_cli.readiness import LOOK_S, POLL_S, REGISTRY, Readiness
from tidelog_cli.state_file import PumpAt, TopologyState

LOCK_FILE = ".lock"
NATS = "nats"
SOCKET = "pump.sock"
SOCKET_BYTES = 107
HERE = "127.0.0.1"
PORT_S = 3.0
"""A port of ours may still be held by children of an `up` that was killed a moment ago."""


KEPT_FREE = {"storage.stop-write-at-available-space": "1 gib"}
"""All services of one machine share its disk with whatever else is there."""


class Options(msgspec.Struct, frozen=True):
    """What `tidelog up` was asked for."""

    directory: Path
    downstream: str
    pumps: int = 2
    pump_host: str = HERE
    """Where their gRPC listens, and where others are told to find it."""
    ddl_history: str = "embedded"
    oracle: str = "embedded"
    pd_urls: str = ""
    upstream_tls: TlsFiles = TlsFiles()
    """For PD, TiKV and a TiDB's status address, where their addresses say https."""
    initial_commit_ts: int = 0
    start_ts: int = 0
    accept_loss: bool = False
    cluster_id: int = 0
    cluster: str = "default"
    feed: str = "main"
    keys: Path | None = None
    """Where each service finds its key, as `tidelog keys` makes them; None: NATS asks for none."""
    certs: Path | None = None
    """Where each finds its certificate, as `tidelog certs` makes them; None: there is no TLS."""

    def access(self, identity: str) -> NatsAccess:
        tls = NatsAccess() if self.certs is None else cert_files.nats_access(self.certs, identity)
        key = "" if self.keys is None else keys.seed_file(self.keys, identity)
        return msgspec.structs.replace(tls, nats_nkey_file=key)

    def grpc_tls(self) -> dict[str, Any]:
        """A Pump's table `[security]`, key by key."""
        if self.certs is None:
            return {}
        files = msgspec.to_builtins(cert_files.grpc_files(self.certs, PUMP))
        return {f"security.{key}": value for key, value in files.items()}

    def upstream(self) -> dict[str, Any]:
        """The table `[upstream]` of who asks the TiDB cluster itself."""
        return {"upstream.pd-urls": self.pd_urls} | self._upstream_tls() if self.pd_urls else {}

    def history(self) -> dict[str, Any]:
        """Where the Drainer's schema comes from."""
        asked = self.upstream()
        if not asked and self.ddl_history.startswith("https:"):
            asked = self._upstream_tls()
        return {"ddl-history": self.ddl_history} | asked

    def _upstream_tls(self) -> dict[str, Any]:
        files = msgspec.to_builtins(self.upstream_tls)
        return {f"upstream.security.{key}": value for key, value in files.items() if value}

    async def secured(self) -> str:
        """Make what is missing; returns the blocks of the NATS server's configuration."""
        if self.keys is not None:
            await keys.make(self.keys, self.cluster)
        if self.certs is not None:
            from tidelog_cli import certs  # cryptography takes a while to load

            await certs.make(self.certs, [self.pump_host] if self.pump_host != HERE else ())
        return nats_blocks(self.directory, str(self.keys or ""), str(self.certs or ""))


def nats_blocks(directory: Path, key_dir: str, cert_dir: str) -> str:
    """Of the configuration of a topology's NATS server: who is let in, and by which certificates;
    "": by none."""
    blocks = keys.nats_block(Path(key_dir), directory / NATS) if key_dir else ""
    return blocks + (cert_files.nats_block(Path(cert_dir)) if cert_dir else "")


def plan(options: Options, nats_url: str, pumps: list[PumpAt]) -> list[Service]:
    """The children in the order they start."""
    base = {
        "cluster": options.cluster,
        "cluster-id": options.cluster_id,
        "nats-url": nats_url,
        "http-addr": "127.0.0.1:0",
        "log-format": "json",
    }

    def service(name: str, module: str, **config: Any) -> Service:
        own = {key.replace("_", "-"): value for key, value in config.items()}
        here = {"node-id": name, "data-dir": str(options.directory / name)}
        files = msgspec.to_builtins(options.access(module.removeprefix("tidelog_")))
        return Service(name, module, base | files | here | own)

    feed_name = {"feed": options.feed}
    return [
        service(
            "registry",
            REGISTRY,
            oracle=options.oracle,
            **options.upstream(),
            console_addr="127.0.0.1:0",
        ),
        *(
            service(
                p.node,
                "tidelog_pump",
                oracle=options.oracle,
                **options.upstream(),
                grpc_addr=p.grpc,
                socket=p.socket,
                **KEPT_FREE,
                **options.grpc_tls(),
            )
            for p in pumps
        ),
        service(
            "drainer",
            "tidelog_drainer",
            start_ts=options.start_ts,
            accept_loss=options.accept_loss,
            **options.history(),
            **feed_name,
        ),
        service("applier", "tidelog_applier", downstream=options.downstream, **feed_name),
    ]


def socket_path(home: Path) -> str:
    """Of the Pump's unix socket, for a TiDB on this machine; empty if the system can't have one
    there."""
    path = str(home / SOCKET)
    return path if len(os.fsencode(path)) <= SOCKET_BYTES else ""


async def is_free(port: int) -> bool:
    """Whether nobody listens on the port, or soon nobody does; 0 always is."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PORT_S
    while port:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            break
        writer.close()
        if loop.time() > deadline:
            return False
        await asyncio.sleep(POLL_S)
    return True


class Topology:
    """NATS and all services of one directory."""

    def __init__(
        self,
        options: Options,
        processes: Processes,
        on_trouble: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.options = options
        self.children: list[Child] = []
        self._processes = processes
        self._on_trouble = on_trouble
        self._known = state_file.read(options.directory)
        port = urlsplit(self._known.nats).port if self._known else None
        self._nats_port = port or 0
        self._nats = self._server("")
        self._pumps_at: list[PumpAt] = []
        self._is_saved = True
        self._is_found = self._known is not None

    @property
    def nats_url(self) -> str:
        return self._nats.url

    def _server(self, more: str) -> EmbeddedNats:
        return EmbeddedNats(
            self.options.directory / NATS,
            port=self._nats_port,
            processes=self._processes,
            more=more,
        )

    def _pumps(self) -> list[PumpAt]:
        known = self._known.pumps if self._known else []
        ports = {pump.node: pump.grpc.rpartition(":")[2] for pump in known}
        names = [f"pump-{n + 1}" for n in range(self.options.pumps)]
        return [
            PumpAt(
                name,
                f"{self.options.pump_host}:{ports.get(name) or free_port()}",
                socket_path(self.options.directory / name),
            )
            for name in names
        ]

    def state(self) -> TopologyState:
        pids = {c.service.name: c.process.pid for c in self.children if c.process is not None}
        return TopologyState(
            nats=self._nats.url,
            cluster=self.options.cluster,
            feed=self.options.feed,
            cluster_id=self.options.cluster_id,
            pumps=self._pumps_at,
            http={c.service.name: url for c in self.children if (url := c.http())},
            pids=pids | {"nats": self._nats.pid},
            access=self.options.access(ADMIN),
            keys=str(self.options.keys or ""),
            certs=str(self.options.certs or ""),
            console=next((url for c in self.children if (url := c.console())), ""),
        )

    def save(self) -> None:
        """Who is where. A full disk ends nothing that runs: it is told once, and tried again.
        Raises DiskFull while nothing was ever written here: nobody would find what begins."""
        try:
            state_file.write(self.options.directory, self.state())
        except DiskFull as error:
            if not self._is_found:
                raise
            if self._is_saved:
                self._on_trouble(error.message)
            self._is_saved = False
        else:
            self._is_found = self._is_saved = True

    async def run(self, stop: asyncio.Event, on_ready: Callable[[TopologyState], None]) -> None:
        """Start everything in order, say when it is ready, stop it in reverse at `stop`. Raises
        ForeignDirectory if another `up` runs there."""
        lock = self._lock()
        try:
            await self._run(stop, on_ready)
        finally:
            lock.release()

    def _lock(self) -> Lock:
        try:
            return RealDisk(self.options.directory).lock(LOCK_FILE)
        except ForeignDirectory as error:
            raise ForeignDirectory(
                f"another `tidelog up` runs in {self.options.directory}",
                hint="stop that one first, or give this one another --dir",
            ) from error

    async def _run(self, stop: asyncio.Event, on_ready: Callable[[TopologyState], None]) -> None:
        if not await is_free(self._nats_port):
            raise ConfigError(
                f"NATS can't listen on 127.0.0.1:{self._nats_port}: another process does",
                hint=f"end that process; the port is kept in {state_file.NAME} for the clients",
            )
        self._nats = self._server(await self.options.secured())
        await self._nats.start()
        self._pumps_at = self._pumps()
        services = plan(self.options, self._nats.url, self._pumps_at)
        home = self.options.directory
        self.children = [Child(s, home, self._processes, self._on_trouble) for s in services]
        try:
            async with asyncio.TaskGroup() as group:
                keepers = [group.create_task(child.keep(self.save)) for child in self.children]
                keepers.append(group.create_task(self._keep_nats()))
                creating = group.create_task(self._create_feed(stop))
                readiness = Readiness(self.children, self.state, self._on_trouble)
                if await readiness.reached(stop):
                    await creating
                    self.save()
                    on_ready(self.state())
                    keepers.append(group.create_task(readiness.watch()))
                    keepers.append(group.create_task(self._keep_addresses()))
                    await stop.wait()
                    for watcher in keepers[-2:]:
                        watcher.cancel()
                for child in reversed(self.children):
                    await child.stop()
                for keeper in keepers:
                    keeper.cancel()
        finally:
            for child in reversed(self.children):
                await child.stop()
            await self._nats.stop()

    async def _create_feed(self, stop: asyncio.Event) -> None:
        """Once, whatever it is asked for later; its Drainer waits for that."""
        name, begins = self.options.feed, self.options.initial_commit_ts
        while not stop.is_set():
            try:
                async with connected(self.state()) as bus:
                    await feed.ensure(bus, self.options.cluster, name, begins)
                    return
            except Unavailable:
                await asyncio.sleep(POLL_S)

    async def _keep_addresses(self) -> None:
        """A child that was started again has another admin address, a moment later."""
        while True:
            known = self.state().http
            await asyncio.sleep(LOOK_S)
            if self.state().http != known or not self._is_saved:
                self.save()

    async def _keep_nats(self) -> None:
        """The server is a child like the others: one that dies is started again."""
        while True:
            code = await self._nats.wait()
            self._on_trouble(f"nats-server ended with {code}; it is started again")
            await asyncio.sleep(BACKOFF_S[0])
            await self._start_nats()
            self.save()

    async def _start_nats(self) -> None:
        while True:
            try:
                return await self._nats.start()
            except Unavailable as error:
                self._on_trouble(f"nats-server can't be started now: {error.message}")
            await asyncio.sleep(BACKOFF_S[-1])
