"""`tidelog subscribe --print-code`: a program that follows a feed, for this topology."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib import resources

import msgspec

from tidelog import subjects
from tidelog.security.access import NatsAccess
from tidelog.subscriber.tables import Tables


class Language(StrEnum):
    PYTHON = "python"
    GO = "go"
    JAVASCRIPT = "javascript"


class Wanted(msgspec.Struct, frozen=True):
    """What the program follows, and how it gets at it."""

    nats_url: str
    cluster: str
    feed: str
    tables: tuple[str, ...] = ()
    access: NatsAccess = NatsAccess()

    @property
    def what(self) -> str:
        return ", ".join(self.tables) or "every table"

    @property
    def servers(self) -> list[str]:
        return [url.strip() for url in self.nats_url.split(",")]

    @property
    def subjects(self) -> Sequence[str]:
        """None: all that the stream has; a filter of one subject needs a permission of its own.
        Raises BadInput for what is no table."""
        return Tables(self.tables).subjects(self.feed)


def program(language: Language, wanted: Wanted) -> str:
    """Its source. Raises BadInput."""
    name, filled = {
        Language.PYTHON: ("subscribe.py.txt", _python),
        Language.GO: ("subscribe.go.txt", _go),
        Language.JAVASCRIPT: ("subscribe.mjs.txt", _javascript),
    }[language]
    text = (resources.files("tidelog_cli") / "snippets" / name).read_text(encoding="utf-8")
    common = {
        "URL": _text(wanted.nats_url),
        "STREAM": _text(subjects.changes_stream(wanted.feed)),
        "SUBJECTS": ", ".join(map(_text, wanted.subjects)),
        "CLUSTER": _text(wanted.cluster),
        "WHAT": wanted.what,
    }
    for token, value in {**common, **filled(wanted)}.items():
        text = text.replace(f"@{token}@", value)
    return text


def _text(value: str) -> str:
    """A literal of each of the three languages."""
    return json.dumps(value, ensure_ascii=False)


def _lines(indent: str, lines: Sequence[str]) -> str:
    return "".join(f"{indent}{line}\n" for line in lines)


def _python(wanted: Wanted) -> Mapping[str, str]:
    given = msgspec.structs.asdict(wanted.access)
    lines = [f"{name}={_text(path)}," for name, path in given.items() if path]
    tables = "[" + ", ".join(map(_text, wanted.tables)) + "]"
    return {"TABLES": tables, "FEED": _text(wanted.feed), "ACCESS": _lines(" " * 8, lines)}


_GO_KEY = """\
key, err := nats.NkeyOptionFromSeed(@)
if err != nil {
\tlog.Fatal(err)
}
inbox := func(o *nats.Options) error { // answers come where nobody else may listen
\to.InboxPrefix = "_INBOX_" + o.Nkey
\treturn nil
}
options = append(options, key, inbox)"""


def _go(wanted: Wanted) -> Mapping[str, str]:
    lines, access = [], wanted.access
    if access.nats_nkey_file:
        lines += _GO_KEY.replace("@", _text(access.nats_nkey_file)).splitlines()
    if access.nats_ca:
        lines.append(f"options = append(options, nats.RootCAs({_text(access.nats_ca)}))")
    if access.nats_cert:
        pair = f"{_text(access.nats_cert)}, {_text(access.nats_key)}"
        lines.append(f"options = append(options, nats.ClientCert({pair}))")
    return {"FEED": wanted.feed, "ACCESS": _lines("\t", lines)}


def _javascript(wanted: Wanted) -> Mapping[str, str]:
    lines, seed, access = [], "", wanted.access
    if access.nats_nkey_file:
        path = _text(access.nats_nkey_file)
        seed = f'const SEED = new TextEncoder().encode(readFileSync({path}, "utf8").trim());\n'
        lines += [
            "authenticator: nkeyAuthenticator(SEED),",
            "// Answers come where nobody else may listen.",
            "inboxPrefix: `_INBOX_${nkeys.fromSeed(SEED).getPublicKey()}`,",
        ]
    tls = {"caFile": access.nats_ca, "certFile": access.nats_cert, "keyFile": access.nats_key}
    given = [f"{name}: {_text(path)}" for name, path in tls.items() if path]
    if given:
        lines.append("tls: { " + ", ".join(given) + " },")
    return {
        "FEED": wanted.feed,
        "SUBJECTS": "[\n" + _lines("  ", [f"{_text(s)}," for s in wanted.subjects]) + "]",
        "SERVERS": "[" + ", ".join(map(_text, wanted.servers)) + "]",
        "SEED": seed,
        "NKEY_IMPORT": ", nkeyAuthenticator, nkeys" if seed else "",
        "ACCESS": _lines("  ", lines),
    }
