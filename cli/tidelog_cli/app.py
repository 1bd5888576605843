"""All of `tidelog`, for who looks at its commands from within."""

from __future__ import annotations

from tidelog_cli.command_line import command_line

app = command_line()
