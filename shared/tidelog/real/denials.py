"""What a NATS server denies: it says so whenever it likes, in words, with the subject in them."""

from __future__ import annotations

import re

import structlog

from tidelog.errors import Forbidden
from tidelog.security.access import NatsAccess

log = structlog.get_logger()

MOST = 1000
"""Subjects remembered as told already."""
_WORDS = re.compile(r'permissions violation for (publish|subscription) to "([^"]*)"')


class Denials:
    """nats-py tells a subject in lower case, so it is compared so."""

    def __init__(self, name: str, access: NatsAccess) -> None:
        self._name = name
        self._access = access
        self._told: set[str] = set()
        self._subscriptions: set[str] = set()

    def take(self, words: str) -> str:
        """What may not be published to, in lower case; "" = it was something else."""
        found = _WORDS.search(words.lower())
        if found is None:
            return ""
        if found[1] == "publish":
            return found[2]
        if len(self._subscriptions) < MOST:
            self._subscriptions.add(found[2])
        return ""

    def log(self, words: str) -> None:
        """Nobody waits to be told."""
        if words not in self._told:
            if len(self._told) < MOST:
                self._told.add(words)
            key = self._access.nats_nkey_file
            log.error("the NATS server denies it", who=self._name, key=key, said=words)

    def check_subscription(self, subject: str) -> None:
        """Raises Forbidden if it was denied."""
        if subject.lower() in self._subscriptions:
            self._subscriptions.discard(subject.lower())
            raise self.error("subscribe", subject)

    def error(self, verb: str, subject: str) -> Forbidden:
        key = self._access.nats_nkey_file
        return Forbidden(
            f"{self._name} may not {verb} to {subject}",
            hint=f"{key or 'no nats-nkey-file'} is of an identity without that permission:"
            " docs/security.md has the table",
        )
