"""The `authorization` block of a NATS server's configuration, made of the table. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tidelog.security.access import inbox_of
from tidelog.security.identities import TABLE, permissions
from tidelog.security.permissions import ANSWER_S, ANSWERS, Permissions

_HEAD = """\
# Made by `tidelog keys`: who is not named does not get in, what is not named is denied.
"""


def identity_of(name: str) -> str:
    """`subscriber` and `subscriber-billing` are the identity subscriber. Raises KeyError."""
    identity = name.partition("-")[0]
    if identity not in TABLE:
        raise KeyError(identity)
    return identity


def auth_conf(keys: Mapping[str, str], cluster: str) -> str:
    """`keys`: by name (see `identity_of`) the public key. One block; a server includes it."""
    users = "".join(
        f"    # {name}\n{_user(key, permissions(identity_of(name), cluster, inbox_of(key)))}"
        for name, key in keys.items()
    )
    return f"{_HEAD}authorization {{\n  timeout: 5\n  users: [\n{users}  ]\n}}\n"


def _user(key: str, granted: Permissions) -> str:
    answers = f'\n      allow_responses: {{ max: {ANSWERS}, expires: "{ANSWER_S}s" }}'
    return f"""\
    {{ nkey: {key}, permissions: {{
      publish: {{ allow: {_list(granted.publish)}, deny: {_list(granted.publish_not)} }}
      subscribe: {{ allow: {_list(granted.subscribe)} }}{answers if granted.answers else ""}
    }} }}
"""


def _list(patterns: Sequence[str]) -> str:
    return json.dumps(patterns)
