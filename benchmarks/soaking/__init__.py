"""What ``soak.py`` is made of: a world under load, blows that hit it, and the account in the end.

What tasks were promised and what became of them is written into a ledger, a file that neither a
kill nor the Redis under attack can take back. What the queue says about itself counts only where
it has to agree with that.
"""
