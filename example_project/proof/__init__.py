"""What demo.py is made of: the world around the shop, and the account of it.

The shop's tasks end in the world outside: in a mail server and at its partners. So that is where
they are counted. The servers here are real ones on real sockets, and write what they received into
the ledger; nothing that the queue says about itself goes into the count of what was lost.
"""
