"""Bulk jobs: what they are told, what they tell, and the process that does one. The work itself is
the backfill service's; who submits or starts a job needs only this."""
