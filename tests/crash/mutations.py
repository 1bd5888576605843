"""Every mistake in storage that has to be caught."""

from __future__ import annotations

from tests.crash.pump_mutations import PUMP_MUTATIONS
from tests.crash.store_mutations import STORE_MUTATIONS

MUTATIONS = PUMP_MUTATIONS + STORE_MUTATIONS
