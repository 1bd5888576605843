"""What of the upstream a feed publishes, and under which names. Pure."""
