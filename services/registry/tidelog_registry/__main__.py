"""`python -m tidelog_registry`; with `health`: is the one that runs ready?"""

from tidelog.health import is_answered
from tidelog_registry.config import RegistryConfig

if not is_answered("registry", RegistryConfig):
    from tidelog.service import main
    from tidelog_registry.service import build

    main("registry", RegistryConfig, build)
