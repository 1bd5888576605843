"""`python -m tidelog_pump`; with `health`: is the one that runs ready?"""

from tidelog.health import is_answered
from tidelog.imports import hurry

if __name__ == "__main__" and not is_answered("pump", "tidelog_pump.config:PumpConfig"):
    hurry()
    from tidelog.service import main
    from tidelog_pump.config import PumpConfig
    from tidelog_pump.service import begin

    main("pump", PumpConfig, begin)
