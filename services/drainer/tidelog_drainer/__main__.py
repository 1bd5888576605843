"""`python -m tidelog_drainer`; with `health`: is the one that runs ready?"""

from tidelog.health import is_answered
from tidelog.imports import hurry

if __name__ == "__main__" and not is_answered("drainer", "tidelog_drainer.config:DrainerConfig"):
    hurry()
    from tidelog.service import main
    from tidelog_drainer.config import DrainerConfig
    from tidelog_drainer.service import build

    main("drainer", DrainerConfig, build)
