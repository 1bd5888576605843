"""Who a command says it is to NATS: options that every command with `--nats` has.

They are put into a command's signature here, so that no command has to hand them on to
`state_file.find`, which is the one that wants them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any

import typer

from tidelog.security.access import NatsAccess

_HELP = {
    "nats_nkey_file": "The key of an identity, as `tidelog keys` makes it.",
    "nats_ca": "PEM of who vouches for the NATS server.",
    "nats_cert": "PEM of our certificate, where the server asks for one.",
    "nats_key": "PEM of its key.",
}
_given: ContextVar[NatsAccess] = ContextVar("given")


def given() -> NatsAccess:
    """What this command was given: flags, else variables."""
    return _given.get(NatsAccess())


def _option(name: str) -> inspect.Parameter:
    option = typer.Option(
        f"--{name.replace('_', '-')}", envvar=f"TIDELOG_{name.upper()}", help=_HELP[name]
    )
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default="", annotation=Annotated[str, option])


def take_access(app: typer.Typer) -> None:
    """Give the options to each command of `app`, and of those within it, that has a `nats`; once,
    though a group may be of several."""
    for command in app.registered_commands:
        command.callback = _taking(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            take_access(group.typer_instance)
    if app.registered_callback is not None:
        app.registered_callback.callback = _taking(app.registered_callback.callback)


def _taking(command: Callable[..., Any] | None) -> Callable[..., Any] | None:
    names = NatsAccess.__struct_fields__
    has = {} if command is None else inspect.signature(command).parameters
    if command is None or "nats" not in has or names[0] in has:
        return command
    own = inspect.signature(command, eval_str=True)
    parameters = [*own.parameters.values(), *map(_option, names)]

    def with_access(**values: Any) -> Any:
        _given.set(NatsAccess(**{name: values.pop(name) for name in names}))
        return command(**values)

    with_access.__name__, with_access.__doc__ = command.__name__, command.__doc__
    with_access.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_access.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_access
