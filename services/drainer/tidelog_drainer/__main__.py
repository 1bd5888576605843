"""`python -m tidelog_drainer`"""

from tidelog.service import main
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.service import build

main("drainer", DrainerConfig, build)
