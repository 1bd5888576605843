"""What a tombstoned Pump finds above its tombstone (I4): named, exported, never read unnoticed."""
