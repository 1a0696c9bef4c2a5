"""An app whose handlers do what the test says, in processes that may be killed.

What they did is in a ledger, a file outside of Redis; see :mod:`tests.ledger`.
"""
