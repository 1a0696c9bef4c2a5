"""From a connection's settings to clients of redis-py: one server, Sentinels, or a Cluster.

Whatever the settings say, replies come as bytes, by RESP2, with time-outs, and nothing is ever
sent twice: a script whose reply is late would run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import redis
from redis import asyncio as aio
from redis import cluster, sentinel
from redis.asyncio import cluster as aio_cluster
from redis.asyncio import retry as aio_retry
from redis.asyncio import sentinel as aio_sentinel
from redis.backoff import NoBackoff
from redis.client import PubSub
from redis.retry import Retry
from redis.sentinel import SentinelManagedConnection

from django_redq.broker.alias import resolve
from django_redq.conf import ConnectionConfig

SOCKET_TIMEOUT = 5.0
"""Seconds that a reply may take, unless the settings say otherwise."""
CONNECT_TIMEOUT = 2.0

# A pool's bound would make a busy consumer fail; what bounds connections is the number of threads.
_UNBOUNDED = 2**31 - 1

_OURS = {"protocol": 2, "decode_responses": False, "health_check_interval": 0}


class _SentinelConnection(SentinelManagedConnection):
    """Closes itself when reading a reply is broken off (a handler's time-out raised in a thread).

    redis-py's other connections do; this one would go back to the pool and give the late reply
    to the next command.
    """

    def read_response(
        self,
        disable_decoding: Any = False,  # noqa: FBT002 - redis-py's signature
        *,
        disconnect_on_error: bool | None = True,
        **more: Any,
    ) -> Any:
        return super().read_response(
            disable_decoding, disconnect_on_error=disconnect_on_error, **more
        )


class _SentinelTLSConnection(_SentinelConnection, redis.SSLConnection):
    """The same over TLS."""


class _SentinelPool(sentinel.SentinelConnectionPool):
    """Closes the connections to the Sentinels along with its own; redis-py leaves them open."""

    def disconnect(self, inuse_connections: bool = True) -> None:  # noqa: FBT001, FBT002
        super().disconnect(inuse_connections)
        if inuse_connections:  # else only the master has changed
            for client in self.sentinel_manager.sentinels:
                client.close()


class _AsyncSentinelPool(aio_sentinel.SentinelConnectionPool):
    async def disconnect(self, inuse_connections: bool = True) -> None:  # noqa: FBT001, FBT002
        await super().disconnect(inuse_connections)
        if inuse_connections:
            for client in self.sentinel_manager.sentinels:
                await client.aclose()


class _Kit(NamedTuple):
    """The classes of redis-py for one of its two worlds."""

    client: Any
    pool: Any
    plain: Any
    tls: Any
    unix: Any
    sentinel: Any
    sentinel_pool: Any
    sentinel_plain: Any
    sentinel_tls: Any
    cluster: Any
    cluster_node: Any
    retry: Any


_SYNC = _Kit(
    client=redis.Redis,
    pool=redis.ConnectionPool,
    plain=redis.Connection,
    tls=redis.SSLConnection,
    unix=redis.UnixDomainSocketConnection,
    sentinel=sentinel.Sentinel,
    sentinel_pool=_SentinelPool,
    sentinel_plain=_SentinelConnection,
    sentinel_tls=_SentinelTLSConnection,
    cluster=cluster.RedisCluster,
    cluster_node=cluster.ClusterNode,
    retry=Retry,
)
_ASYNC = _Kit(
    client=aio.Redis,
    pool=aio.ConnectionPool,
    plain=aio.Connection,
    tls=aio.SSLConnection,
    unix=aio.UnixDomainSocketConnection,
    sentinel=aio_sentinel.Sentinel,
    sentinel_pool=_AsyncSentinelPool,
    sentinel_plain=aio_sentinel.SentinelManagedConnection,
    sentinel_tls=aio_sentinel.SentinelManagedSSLConnection,
    cluster=aio_cluster.RedisCluster,
    cluster_node=aio_cluster.ClusterNode,
    retry=aio_retry.Retry,
)


def pubsub_of(client: redis.Redis) -> PubSub:
    """Its way to listen to channels."""
    make: Callable[[], PubSub] = client.pubsub  # without types before redis-py 8.2
    return make()


def make_client(connection: ConnectionConfig) -> redis.Redis:
    """A blocking client with a pool of its own; it connects when it is first used.

    A Cluster's client is the exception: redis-py's asks the nodes at once.

    Raises:
        ConfigurationError: the cache alias does not lead to a server.
    """
    return cast("redis.Redis", _make(resolve(connection), _SYNC))


def make_async_client(connection: ConnectionConfig) -> aio.Redis:
    """The same for one event loop."""
    return cast("aio.Redis", _make(resolve(connection), _ASYNC))


def _make(connection: ConnectionConfig, kit: _Kit) -> Any:
    match connection.kind:
        case "sentinels":
            return kit.client.from_pool(_sentinel_pool(connection, kit))
        case "cluster":
            return _cluster(connection, kit)
        case _:
            return kit.client.from_pool(_pool(connection, kit))


def _arguments(options: Mapping[str, Any], kit: _Kit) -> dict[str, Any]:
    return {
        "socket_timeout": SOCKET_TIMEOUT,
        "socket_connect_timeout": CONNECT_TIMEOUT,
        **options,
        **_OURS,
        "retry": _no_retry(kit),
    }


def _no_retry(kit: _Kit) -> Any:
    # Left out, it would be ten tries of redis-py's own.
    return kit.retry(NoBackoff(), 0)


def _pooled(connection: ConnectionConfig, kit: _Kit) -> dict[str, Any]:
    arguments = _arguments(connection.options, kit)
    return {"max_connections": _UNBOUNDED, "db": connection.db, **arguments}


def _pool(connection: ConnectionConfig, kit: _Kit) -> Any:
    arguments = _pooled(connection, kit)
    if connection.path:
        tcp_only = {key for key in arguments if key.startswith("socket_keepalive")}
        arguments = {key: value for key, value in arguments.items() if key not in tcp_only}
        return kit.pool(connection_class=kit.unix, path=connection.path, **arguments)
    return kit.pool(
        connection_class=kit.tls if connection.tls else kit.plain,
        host=connection.host,
        port=connection.port,
        **arguments,
    )


def _sentinel_pool(connection: ConnectionConfig, kit: _Kit) -> Any:
    sentinels = kit.sentinel(
        connection.nodes, sentinel_kwargs=_arguments(connection.sentinel_options, kit)
    )
    return kit.sentinel_pool(
        connection.service,
        sentinels,
        connection_class=kit.sentinel_tls if connection.tls else kit.sentinel_plain,
        **_pooled(connection, kit),
    )


def _cluster(connection: ConnectionConfig, kit: _Kit) -> Any:
    arguments = {"max_connections": _UNBOUNDED, **_arguments(connection.options, kit)}
    return kit.cluster(
        startup_nodes=[kit.cluster_node(host, port) for host, port in connection.nodes],
        ssl=connection.tls,
        # Without a node's slots the other shards still have to go on.
        require_full_coverage=False,
        **arguments,
    )
