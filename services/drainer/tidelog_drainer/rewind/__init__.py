"""Private streams for readers that the feed's own stream has left behind."""
