"""A service as NATS micro sees it, so that `nats micro ls/info/stats` finds it (ADR-32)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tidelog.ports import Bus, Request

Endpoints = Callable[[], list[dict[str, Any]]]
"""Served subjects, each with `subject`, `num_requests`, `num_errors`."""


class MicroService:
    """Answers $SRV.PING, INFO and STATS, for all, for the name, and for the name and id."""

    def __init__(
        self,
        name: str,
        instance: str,
        version: str,
        started: str,
        metadata: dict[str, str],
        endpoints: Endpoints,
    ) -> None:
        self._identity = {"name": name, "id": instance, "version": version, "metadata": metadata}
        self._started = started
        self._endpoints = endpoints

    async def serve(self, bus: Bus) -> None:
        name, instance = self._identity["name"], self._identity["id"]
        for verb in ("PING", "INFO", "STATS"):
            for suffix in ("", f".{name}", f".{name}.{instance}"):
                await bus.serve(f"$SRV.{verb}{suffix}", self._answer)

    async def _answer(self, request: Request) -> None:
        verb = request.subject.split(".")[1].lower()
        request.respond(msgspec.json.encode(self._body(verb)))

    def _body(self, verb: str) -> dict[str, Any]:
        body: dict[str, Any] = {"type": f"io.nats.micro.v1.{verb}_response", **self._identity}
        if verb == "info":
            body["description"] = f"Tidelog {self._identity['name']}"
            body["endpoints"] = [self._endpoint(e) for e in self._endpoints()]
        elif verb == "stats":
            body["started"] = self._started
            body["endpoints"] = [
                self._endpoint(e)
                | {
                    "num_requests": e["num_requests"],
                    "num_errors": e["num_errors"],
                    "last_error": "",
                    "processing_time": 0,
                    "average_processing_time": 0,
                }
                for e in self._endpoints()
            ]
        return body

    @staticmethod
    def _endpoint(endpoint: dict[str, Any]) -> dict[str, Any]:
        subject = str(endpoint["subject"])
        return {"name": subject.rpartition(".")[2], "subject": subject, "queue_group": ""}
