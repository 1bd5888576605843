"""`python -m tidelog_applier`"""

from tidelog.downstreams import open_downstream
from tidelog.offline import Offline
from tidelog.service import main
from tidelog_applier.apply.control import options
from tidelog_applier.config import ApplierConfig
from tidelog_applier.service import build, recovery


def offline(config: ApplierConfig) -> Offline[ApplierConfig] | None:
    """A downstream that can't be is told before NATS is waited for. Raises ConfigError."""
    open_downstream(options(config, if_free=False))
    return recovery(config)


main("applier", ApplierConfig, build, open_downstream=open_downstream, offline=offline)
