"""From an alias of django-redis in ``CACHES`` to a connection of our own.

We read it as django-redis does, and take where Redis is and how to log in and encrypt. All else of
the alias (decoding, protocol, parser, serializer, prefix, pool) serves the cache and stays there.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from django.utils.module_loading import import_string
from django_redis.cache import RedisCache
from django_redis.client import DefaultClient, SentinelClient, ShardClient
from django_redis.pool import ConnectionFactory, SentinelConnectionFactory
from redis.connection import SSLConnection

from django_redq.conf import ConnectionConfig, cache_settings, connection_factory
from django_redq.conf.connection import SENTINEL_PORT, addresses, server, through_sentinels
from django_redq.conf.options import FOR_SENTINELS, OPTIONS, options
from django_redq.conf.rules import RuleError, a, at, problem
from django_redq.conf.urls import read_url
from django_redq.errors import ConfigurationError

LINES = """\
CACHES = {{
    ...,
    {alias!r}: {{
        "BACKEND": "django_redq.cache.QueueCache",
        "LOCATION": "redis://127.0.0.1:6379/1",
    }},
}}"""

POOL = "CONNECTION_POOL_KWARGS"

# A client's name is the cache's own.
_CARRIED = OPTIONS.keys() - {"client_name"}
_PLACES = ("host", "port", "db")
_WRONG_CLIENT = (
    "must be DefaultClient, HerdClient or SentinelClient of django-redis, or a subclass; a queue "
    "cannot be spread over servers by key"
)
_WRONG_FACTORY = (
    "makes connections in a way of its own, which django-redq cannot follow; say where Redis is in "
    "REDQ['CONNECTION'] itself, by URL or SENTINELS"
)


def resolve(connection: ConnectionConfig) -> ConnectionConfig:
    """The connection with an alias replaced by what it stands for.

    Raises:
        ConfigurationError: there is no such alias, or we cannot connect by it.
    """
    if connection.kind != "cache":
        return connection
    alias = connection.alias
    params = cache_settings().get(alias)
    if params is None:
        raise ConfigurationError(
            f"REDQ['CONNECTION'] names the cache alias {alias!r}, which CACHES has not. Add:\n"
            + LINES.format(alias=alias)
        )
    check_backend(alias, params)
    try:
        return read_alias(params)
    except RuleError as error:
        raise ConfigurationError(*error.sentences(f"CACHES[{alias!r}]")) from None


def check_backend(alias: str, params: Mapping[str, Any]) -> None:
    """Raises ConfigurationError unless the alias is django-redis' own."""
    if not issubclass(backend_of(params), RedisCache):
        raise ConfigurationError(
            f"REDQ['CONNECTION'] names the cache alias {alias!r}, whose BACKEND is "
            f"{params.get('BACKEND')!r}; it has to be django-redis' RedisCache or a subclass. Give "
            "the queues an alias of their own:\n"
            + LINES.format(alias=alias if alias != "default" else "redq")
        )


def backend_of(params: Mapping[str, Any]) -> type:
    """The class of a cache; ``object`` where there is none."""
    try:
        found = import_string(params.get("BACKEND", ""))
    except Exception:  # noqa: BLE001 - a module that is not there, or that raises anything
        return object
    return found if isinstance(found, type) else object


def read_alias(params: Mapping[str, Any]) -> ConnectionConfig:
    """The connection of an alias of django-redis; of several locations the first, the primary.

    Raises:
        RuleError: with the path below ``CACHES[alias]``.
    """
    extras = at("['OPTIONS']", _dict, params.get("OPTIONS", {}))
    pool = at("['OPTIONS']['CONNECTION_POOL_KWARGS']", _dict, extras.get(POOL, {}))
    with_sentinels = at("['OPTIONS']", _uses_sentinels, extras)
    place, query = at("['LOCATION']", read_url, next(iter(locations_of(params)), ""))
    values = {
        **at("['OPTIONS']", _login, extras),
        **at("['OPTIONS']['CONNECTION_POOL_KWARGS']", _of_pool, pool),
        **place,
        **at("['LOCATION']", _carried, query),
    }
    if not with_sentinels:
        return server(values)
    nodes = at("['OPTIONS']['SENTINELS']", addresses(SENTINEL_PORT), extras.get("SENTINELS"))
    own = at("['OPTIONS']['SENTINEL_KWARGS']", _of_sentinels, extras.get("SENTINEL_KWARGS"))
    service = values.pop("host", "")
    values.pop("port", None)
    if not service or "path" in values:
        raise RuleError(("['LOCATION']", "must be redis://<name of the service>/<database>"))
    return through_sentinels(nodes, service, values | {"sentinel_kwargs": own})


def locations_of(params: Mapping[str, Any]) -> Iterable[str]:
    """The URLs of a cache; one text may hold several, with commas between them."""
    location = params.get("LOCATION", "")
    if isinstance(location, str):
        # Only before a scheme: a comma may be part of a password, too.
        return re.split(r"[,;]\s*(?=[a-z]+://)", location)
    return tuple(location) if isinstance(location, list | tuple | set) else (location,)


def databases_of(params: Mapping[str, Any]) -> set[Hashable]:
    """The databases that a cache of any backend keeps its keys in, as far as they are Redis'."""
    found: set[Hashable] = set()
    for url in locations_of(params):
        try:
            found.add(_database(url, _dict(params.get("OPTIONS", {}))))
        except (KeyError, TypeError, ValueError):
            continue  # no Redis, or no URL: another check's matter
    return found


def _database(url: str, extras: Mapping[str, Any]) -> Hashable:
    place, query = read_url(url)
    pool = _dict(extras.get(POOL, {}))
    where = {**_places(extras), **_places(pool), **place, **_places(query)}
    return _config_at(where, extras.get("SENTINELS")).database


def _config_at(where: Mapping[str, Any], sentinels: object) -> ConnectionConfig:
    if sentinels is None:
        return server({key: where[key] for key in (*_PLACES, "path") if key in where})
    nodes = addresses(SENTINEL_PORT)(sentinels)
    return through_sentinels(nodes, where["host"], {"db": where.get("db", 0)})


def _places(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: int(values[key]) if key in {"port", "db"} else values[key]
        for key in _PLACES
        if key in values
    }


# --- what django-redis reads -----------------------------------------------------------------


def _dict(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise problem(f"must be a dict, got {a(value)}")
    return value


def _uses_sentinels(extras: Mapping[str, Any]) -> bool:
    client = _class_of(extras, "CLIENT_CLASS", "django_redis.client.DefaultClient")
    if not issubclass(client, DefaultClient) or issubclass(client, ShardClient):
        raise RuleError(("['CLIENT_CLASS']", _WRONG_CLIENT))
    factory = _class_of(extras, "CONNECTION_FACTORY", connection_factory())
    # A subclass may connect in a way of its own, and ours would lead elsewhere.
    if factory not in {ConnectionFactory, SentinelConnectionFactory}:
        raise RuleError(("['CONNECTION_FACTORY']", _WRONG_FACTORY))
    return factory is SentinelConnectionFactory or issubclass(client, SentinelClient)


def _class_of(extras: Mapping[str, Any], key: str, default: str) -> type:
    path = extras.get(key) or default
    try:
        found = import_string(path)
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything
        raise RuleError((f"[{key!r}]", f"{path!r} cannot be imported ({error})")) from None
    if not isinstance(found, type):
        raise RuleError((f"[{key!r}]", f"{path!r} is no class"))
    return found


def _login(extras: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in OPTIONS itself; empty means not given."""
    return {
        key.lower(): at(f"[{key!r}]", OPTIONS[key.lower()], extras[key])
        for key in ("USERNAME", "PASSWORD", "SOCKET_TIMEOUT", "SOCKET_CONNECT_TIMEOUT")
        if extras.get(key)
    }


def _of_pool(pool: Mapping[str, Any]) -> dict[str, Any]:
    if any(pool.get(key) for key in ("ssl_validate_ocsp", "ssl_validate_ocsp_stapled")):
        # Left out without a word it would be a check less than the cache has.
        raise problem("OCSP is not for us: redis-py's asyncio client cannot check it")
    values = _carried(pool) | {key: pool[key] for key in ("host", "port") if pool.get(key)}
    if _encrypts(pool.get("connection_class")):
        values["ssl"] = True
    return values


def _encrypts(connection_class: object) -> bool:
    return isinstance(connection_class, type) and issubclass(connection_class, SSLConnection)


def _carried(values: Mapping[str, Any]) -> dict[str, Any]:
    return options({key: value for key, value in values.items() if key in _CARRIED})


def _of_sentinels(given: object) -> dict[str, Any]:
    values = _dict({} if given is None else given)
    return options({key: value for key, value in values.items() if key in FOR_SENTINELS})
