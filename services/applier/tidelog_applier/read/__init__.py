"""From the feed's stream, through the relay, to what is planned and applied: see intake.py.

`Batch`, `LargeBatch` and `Moved` are what the rest of the Applier gets, in commit order, each once.
"""

from tidelog.relay import Batch, LargeBatch
from tidelog_applier.read.ahead import Ahead
from tidelog_applier.read.assembler import Moved
from tidelog_applier.read.intake import Intake, Taken
from tidelog_applier.read.structures import Structures

__all__ = ["Ahead", "Batch", "Intake", "LargeBatch", "Moved", "Structures", "Taken"]
