"""The cache backend for the alias that leads to the queues."""

from __future__ import annotations

from typing import Any, NoReturn

from django_redis.cache import RedisCache

from django_redq.errors import ClearRefused


class QueueCache(RedisCache):  # type: ignore[misc]  # django-redis has no types
    """django-redis' cache, whose ``clear()`` is refused: it is FLUSHDB, so every task would go.

    A cache alias is cleared by more than its owner: tests clear all of them, so do packages.
    """

    def clear(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Raises ClearRefused."""
        raise ClearRefused(
            "this cache alias leads to the database of django-redq's queues, and clear() would "
            "delete every task in it; delete cache keys by name, or keep the cache in another "
            "database"
        )
