"""An app whose handlers do what the payload says, for the tests of the commands.

``{"say": "x"}`` prints; ``{"fail": "x"}`` raises; ``{"wait": key}`` prints, waits until the test has
pushed something to that list in Redis, and prints again.
"""

from __future__ import annotations

APP = "tests.integration.workshop"
