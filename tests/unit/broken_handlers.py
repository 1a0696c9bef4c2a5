"""A module of handlers that cannot be imported."""

raise RuntimeError("broken on purpose")
