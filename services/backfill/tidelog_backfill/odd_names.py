"""Names of columns that not everything can have."""

from __future__ import annotations

import re

ODD = re.compile(r'["\\\x00-\x1f]')
"""What a struct of msgspec can't have in the name of a field."""
