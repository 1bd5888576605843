"""`python -m tidelog_applier`"""

from tidelog.service import main
from tidelog_applier.config import ApplierConfig
from tidelog_applier.downstreams import open_downstream
from tidelog_applier.service import build, recovery

main("applier", ApplierConfig, build, open_downstream=open_downstream, offline=recovery)
