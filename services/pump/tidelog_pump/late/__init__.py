"""Second copies and what came too late for some readers (I2)."""
