"""Decoding where the history may have to be asked, and the envelopes that a feed may have."""
