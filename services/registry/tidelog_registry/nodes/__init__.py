"""The nodes: who is there, what state follows, what an operator may wish."""
