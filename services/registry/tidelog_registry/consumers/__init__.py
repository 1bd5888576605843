"""Who still needs the Pumps' data, kept over restarts."""
