"""`python -m tidelog_applier`; with `health`: is the one that runs ready?"""

import gc

from tidelog.health import is_answered
from tidelog_applier.config import ApplierConfig

if __name__ == "__main__" and not is_answered("applier", ApplierConfig):
    gc.disable()  # what is imported stays: `main` freezes it, and has the rest collected
    from tidelog.downstreams import open_downstream
    from tidelog.service import main
    from tidelog_applier.service import build, offline

    main("applier", ApplierConfig, build, open_downstream=open_downstream, offline=offline)
