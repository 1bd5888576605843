"""`python -m tidelog_registry`; with `health`: is the one that runs ready?"""

from tidelog.health import is_answered
from tidelog.imports import hurry

if __name__ == "__main__" and not is_answered("registry", "tidelog_registry.config:RegistryConfig"):
    hurry()
    from tidelog.service import main
    from tidelog_registry.config import RegistryConfig
    from tidelog_registry.service import build

    main("registry", RegistryConfig, build)
