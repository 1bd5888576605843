"""`python -m tidelog_drainer`; with `health`: is the one that runs ready?"""

import gc

from tidelog.health import is_answered
from tidelog_drainer.config import DrainerConfig

if __name__ == "__main__" and not is_answered("drainer", DrainerConfig):
    gc.disable()  # what is imported stays: `main` freezes it, and has the rest collected
    from tidelog.service import main
    from tidelog_drainer.service import build

    main("drainer", DrainerConfig, build)
