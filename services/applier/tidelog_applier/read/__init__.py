"""From the feed's stream, through the relay, to what is planned and applied."""
