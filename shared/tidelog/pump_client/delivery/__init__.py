"""How a binlog gets to its Pump: a lane to each, what is tried again, gRPC for what is large."""
