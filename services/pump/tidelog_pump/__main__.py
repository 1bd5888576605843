"""`python -m tidelog_pump`."""

from tidelog.service import main
from tidelog_pump.config import PumpConfig
from tidelog_pump.service import begin

if __name__ == "__main__":
    main("pump", PumpConfig, begin)
