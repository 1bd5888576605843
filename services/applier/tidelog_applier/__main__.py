"""`python -m tidelog_applier`; with `health`: is the one that runs ready?"""

from tidelog.health import is_answered
from tidelog.imports import hurry

if __name__ == "__main__" and not is_answered("applier", "tidelog_applier.config:ApplierConfig"):
    hurry()
    from tidelog.downstreams import open_downstream
    from tidelog.service import main
    from tidelog_applier.config import ApplierConfig
    from tidelog_applier.service import build, offline

    main("applier", ApplierConfig, build, open_downstream=open_downstream, offline=offline)
