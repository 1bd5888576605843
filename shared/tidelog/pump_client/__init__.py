"""The client that writes binlogs to the Pumps (design section 7, last paragraph)."""

from tidelog.pump_client.client import PumpClient
from tidelog.pump_client.errors import NoPump, NotPrewritten, NotSent, OutcomeUnknown

__all__ = ["NoPump", "NotPrewritten", "NotSent", "OutcomeUnknown", "PumpClient"]
