"""Reading a feed in an application: `tidelog.subscribe` and what it yields (docs/reading.md).

`connect.py` is the way in, `subscription.py` what the application holds; `assemblers.py` (pure)
puts transactions together, `positions.py` keeps where the application is.
"""

from tidelog.feed_reader import Gap
from tidelog.subscriber.connect import subscribe
from tidelog.subscriber.errors import PartsLost, TooLarge
from tidelog.subscriber.file_position import FilePosition
from tidelog.subscriber.positions import Position, TablePosition
from tidelog.subscriber.subscription import Subscription
from tidelog.subscriber.transaction import Transaction

__all__ = [
    "FilePosition",
    "Gap",
    "PartsLost",
    "Position",
    "Subscription",
    "TablePosition",
    "TooLarge",
    "Transaction",
    "subscribe",
]
