"""How the Pump obeys: pausing, and leaving the cluster for good."""
