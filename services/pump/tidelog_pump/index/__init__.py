"""What can be found: keys, pairing, the indexer, and the chaser that helps when it is slow."""
