"""`python -m tidelog_registry`."""

from tidelog.service import main
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build

main("registry", RegistryConfig, build)
