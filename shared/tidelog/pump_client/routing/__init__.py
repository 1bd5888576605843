"""Which Pump takes a Prewrite: the list of Pumps, strategies, probes, where Prewrites went."""
