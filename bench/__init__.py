"""Figures beside the limits of the machine they were measured on (`make bench`)."""

import os

# gRPC's core logs each start of a process, from where it is imported on.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
