"""What became of this client's transactions, kept so that Pumps can ask: presumed abort.

Only decisions to commit are recorded, each before its Commit is sent. Every Prewrite's key names
the client that wrote it (`owner.py`), so a question reaches everybody and its owner alone answers.
The owner knows which of its transactions are open now. One that is neither open nor recorded will
never be committed by anybody: it is rolled back for good, whatever crashed. Whoever is not the
owner knows nothing, and says nothing.
"""
