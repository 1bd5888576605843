"""The registry, top to bottom."""

from __future__ import annotations

from tidelog import node_routes
from tidelog.ports import Ports
from tidelog.supervisor import Supervisor
from tidelog_registry import console
from tidelog_registry.config import RegistryConfig
from tidelog_registry.ddl_store import DdlStore
from tidelog_registry.edge import Edge
from tidelog_registry.lease.lease import Lease
from tidelog_registry.lease.tenure import Tenure
from tidelog_registry.members import Members
from tidelog_registry.nodes.directory import Directory
from tidelog_registry.oracle.tso import Tso
from tidelog_registry.pd.mirror import PdMirror
from tidelog_registry.statuses.board import StatusBoard


def build(config: RegistryConfig, ports: Ports) -> Supervisor:
    cluster, tenure = config.cluster, Tenure(ports.clock)
    tree = Supervisor("registry")
    tree.actor("lease", lambda: Lease(config, ports, tenure))
    members = tree.actor("members", lambda: Members(ports, cluster, tenure))
    directory = tree.actor("directory", lambda: Directory(config, ports, tenure, members))
    tree.actor("statuses", lambda: StatusBoard(ports, cluster, tenure, directory))
    if config.upstream.pd_urls:
        tree.actor("pd", lambda: PdMirror(config, ports, tenure, directory))
    ddl = tree.actor("ddl", lambda: DdlStore(ports))
    tso = None
    if config.oracle == "embedded":
        tso = tree.actor("tso", lambda: Tso(ports, cluster, tenure, directory))
    tree.actor("edge", lambda: Edge(ports, cluster, tenure, directory, ddl, tso))
    console.add(tree, config, ports, directory)
    node_routes.add(tree, ports.bus, cluster)
    return tree
