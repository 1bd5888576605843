"""A page that shows what goes on: who is there, how far behind, what is left out
(docs/console.md)."""

from __future__ import annotations

from tidelog.actor import Ref
from tidelog.errors import ConfigError
from tidelog.ports import Ports
from tidelog.supervisor import Supervisor
from tidelog_registry.config import RegistryConfig
from tidelog_registry.console.gatherer import Gatherer
from tidelog_registry.console.viewers import Viewers
from tidelog_registry.mail import DirectoryMail


def add(
    tree: Supervisor, config: RegistryConfig, ports: Ports, directory: Ref[DirectoryMail]
) -> None:
    """Its children, if it is wanted. Raises ConfigError where its packages are missing."""
    if not config.console_addr:
        return
    try:
        from tidelog_registry.console.server import ConsoleServer
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"console-addr is set, and {error.name} is not installed",
            hint="pip install '.[registry]' in a checkout of Tidelog, or leave console-addr empty",
        ) from error
    viewers = Viewers()
    gatherer = tree.actor("console", lambda: Gatherer(ports, config.cluster, directory, viewers))
    tree.actor(
        "console-server",
        lambda: ConsoleServer(
            config.console_addr, config.console_hosts, ports.disk, gatherer, viewers
        ),
    )
