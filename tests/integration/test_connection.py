"""Connections to real servers: where they lead, how they log in, and what comes back."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import redis
from django.conf import settings
from django.core.cache import caches
from django.test import override_settings
from django_redis.pool import ConnectionFactory
from redis.sentinel import SentinelConnectionPool

from django_redq import conf, registry
from django_redq.broker.connection import make_async_client, make_client
from django_redq.checks import check_connection
from django_redq.devserver import DevServer, find_binary, free_port
from tests.engine import Engine
from tests.harness import Redq
from tests.life import whole_life

TLS = Path(__file__).parent / "tls"
USER = "us:er@h/o%m?e#"
PASSWORD = """p@ss:w/o?r#d&=+%41[]{}'",; $é"""

Start = Callable[..., DevServer]
Ask = Callable[..., Any]


def _ask(client: redis.Redis, *command: Any) -> Any:
    with contextlib.closing(client):
        return client.execute_command(*command)


def ask(connection: Any, *command: Any) -> Any:
    """One command over ``REDQ["CONNECTION"]``."""
    with override_settings(REDQ={"CONNECTION": connection}):
        return _ask(make_client(conf.get_config().connection), *command)


def aask(connection: Any, *command: Any) -> Any:
    """The same by asyncio."""

    async def run() -> Any:
        client = make_async_client(conf.get_config().connection)
        try:
            return await client.execute_command(*command)
        finally:
            await client.aclose()

    with override_settings(REDQ={"CONNECTION": connection}):
        return asyncio.run(run())


both_worlds = pytest.mark.parametrize("how", [ask, aask], ids=["blocking", "asyncio"])


@contextlib.contextmanager
def alias(location: Any, **params: Any) -> Iterator[dict[str, str]]:
    """A cache alias; the value for ``REDQ["CONNECTION"]``."""
    backend = {"BACKEND": "django_redq.cache.QueueCache", "LOCATION": location, **params}
    with override_settings(CACHES={"redq": backend}):
        yield {"CACHE": "redq"}


class Proxy:
    """Stands before a server and passes on, in turns, what is asked and what is answered."""

    def __init__(self, port: int, *, tls: bool = False) -> None:
        self.swallow = threading.Event()
        """Set: the next reply is kept back."""
        self._context: ssl.SSLContext | None = None
        if tls:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(TLS / "server.pem")
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                client.settimeout(30)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            plain,
            self._wrapped(plain) as client,
            socket.create_connection(("127.0.0.1", self._target)) as server,
        ):
            while asked := client.recv(65536):
                server.sendall(asked)
                answer = server.recv(65536)
                if self.swallow.is_set():
                    self.swallow.clear()
                else:
                    client.sendall(answer)

    def _wrapped(self, plain: socket.socket) -> socket.socket:
        return self._context.wrap_socket(plain, server_side=True) if self._context else plain

    def close(self) -> None:
        # Only a shutdown wakes the thread that accepts.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def proxied(server: DevServer) -> Iterator[Callable[..., Proxy]]:
    """Makes proxies of the shared server."""
    with contextlib.ExitStack() as stack:

        def make(**options: Any) -> Proxy:
            return stack.enter_context(contextlib.closing(Proxy(server.port, **options)))

        yield make


@pytest.fixture
def tls_port(proxied: Callable[..., Proxy]) -> int:
    return int(proxied(tls=True).port)


@both_worlds
@pytest.mark.every_server
def test_what_the_alias_decodes_prefixes_and_speaks_does_not_reach_us(redq: Redq, how: Ask) -> None:
    key = redq.key("email", 0, "stream")
    redq.client.xadd(key, {"id": b"\xff"})
    redq.client.xgroup_create(key, "default", "0")
    params = {
        "KEY_PREFIX": "site",
        "OPTIONS": {
            "SERIALIZER": "django_redis.serializers.json.JSONSerializer",
            "PARSER_CLASS": "redis._parsers._RESP3Parser",
            "CONNECTION_POOL_KWARGS": {"decode_responses": True, "protocol": 3},
            "SOCKET_TIMEOUT": 60,
        },
    }
    with alias(redq.url, **params) as connection:
        command = ("XREADGROUP", "GROUP", "default", "me", "STREAMS", key, ">")
        ((stream, ((_, fields),)),) = how(connection, *command)
    assert stream == key.encode()
    assert fields in ([b"id", b"\xff"], {b"id": b"\xff"})


def test_the_pool_of_the_cache_is_left_to_the_cache(
    redq: Redq, monkeypatch: pytest.MonkeyPatch
) -> None:
    """django-redis keeps one pool a URL, so that its first user decides for all."""
    monkeypatch.setattr(ConnectionFactory, "_pools", {})
    options = {"CONNECTION_POOL_KWARGS": {"decode_responses": True, "max_connections": 1}}
    with alias(redq.url, OPTIONS=options) as connection:
        cached = caches["redq"].client.get_client()
        assert cached.echo("a") == "a"
        assert ask(connection, "ECHO", "a") == b"a"
        with override_settings(REDQ={"CONNECTION": connection}):
            client = make_client(conf.get_config().connection)
        assert client.connection_pool is not cached.connection_pool
        client.close()
        cached.connection_pool.disconnect()


@both_worlds
@pytest.mark.parametrize("form", ["url", "options", "alias", "pool"])
def test_another_database(server: DevServer, redq: Redq, how: Ask, form: str) -> None:
    base = server.url.removesuffix("/0")
    key = redq.key("email", 0, "lease")
    with contextlib.ExitStack() as stack:
        connection = {
            "url": {"URL": f"{base}/3"},
            "options": {"URL": base, "OPTIONS": {"db": 3}},
            "alias": {"CACHE": "redq"},
            "pool": {"CACHE": "redq"},
        }[form]
        if form == "alias":
            stack.enter_context(alias(f"{base}?db=3"))
        if form == "pool":
            stack.enter_context(alias(base, OPTIONS={"CONNECTION_POOL_KWARGS": {"db": 3}}))
        how(connection, "SET", key, "me")
    with redis.Redis.from_url(f"{base}/3", protocol=2) as third:
        assert third.getdel(key) == b"me"
    assert redq.client.get(key) is None


@pytest.fixture
def guarded(own_server: Start, tmp_path: Path) -> DevServer:
    """A server that lets in only one user, with a name and a password of every special kind."""
    server = own_server(unix_socket=tmp_path / "redis server.sock")
    with redis.Redis.from_url(server.url, protocol=2) as admin:
        admin.acl_setuser(
            USER, enabled=True, passwords=[f"+{PASSWORD}"], keys=["*"], commands=["+@all"]
        )
        admin.acl_setuser("default", enabled=False)
    return server


@both_worlds
@pytest.mark.parametrize("form", ["url", "query", "options", "socket", "alias", "alias url"])
def test_user_names_and_passwords_of_any_characters(
    guarded: DevServer, how: Ask, form: str
) -> None:
    user, word = quote(USER, safe=""), quote(PASSWORD, safe="")
    url = f"redis://{user}:{word}@127.0.0.1:{guarded.port}/0"
    connection = {
        "url": {"URL": url},
        "query": {"URL": f"{guarded.url}?username={user}&password={word}"},
        "options": {"URL": guarded.url, "OPTIONS": {"username": USER, "password": PASSWORD}},
        "socket": {"URL": f"unix://{user}:{word}@{quote(str(guarded.unix_socket))}?db=2"},
    }.get(form, {"CACHE": "redq"})
    with contextlib.ExitStack() as stack:
        if form == "alias":
            login = {"USERNAME": USER, "PASSWORD": PASSWORD}
            stack.enter_context(alias(guarded.url, OPTIONS=login))
        if form == "alias url":
            stack.enter_context(alias([url]))
        assert how(connection, "ACL", "WHOAMI") == USER.encode()


@both_worlds
def test_a_wrong_password_is_not_shown(guarded: DevServer, how: Ask) -> None:
    with pytest.raises(redis.exceptions.AuthenticationError) as caught:
        how({"URL": guarded.url, "OPTIONS": {"username": USER, "password": "s3cr3t"}}, "PING")
    assert "s3cr3t" not in repr(caught.value)


@both_worlds
def test_a_unix_socket_and_its_database(own_server: Start, tmp_path: Path, how: Ask) -> None:
    server = own_server(unix_socket=tmp_path / "redis.sock")
    with alias(f"unix://{server.unix_socket}?db=2") as connection:
        how(connection, "SET", "a", "b")
    with redis.Redis.from_url(f"redis://127.0.0.1:{server.port}/2", protocol=2) as plain:
        assert plain.get("a") == b"b"


@both_worlds
@pytest.mark.parametrize("form", ["query", "options", "alias"])
def test_tls_with_a_ca_of_its_own(tls_port: int, how: Ask, form: str) -> None:
    url = f"rediss://localhost:{tls_port}/0"
    ca = str(TLS / "ca.pem")
    connection = {
        "query": {"URL": f"{url}?ssl_ca_certs={quote(ca)}"},
        "options": {"URL": url, "OPTIONS": {"ssl_ca_certs": ca}},
        "alias": {"CACHE": "redq"},
    }[form]
    with alias(url, OPTIONS={"CONNECTION_POOL_KWARGS": {"ssl_ca_certs": ca}}):
        assert how(connection, "ECHO", "a") == b"a"


@both_worlds
def test_tls_refuses_a_server_that_nobody_vouches_for(tls_port: int, how: Ask) -> None:
    with pytest.raises(redis.exceptions.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
        how({"URL": f"rediss://localhost:{tls_port}/0"}, "PING")
    lax = {"URL": f"rediss://localhost:{tls_port}/0", "OPTIONS": {"ssl_cert_reqs": None}}
    assert how(lax, "ECHO", "a") == b"a"


def _count_once(client: redis.Redis, proxy: Proxy, key: str) -> None:
    with contextlib.closing(client):
        client.ping()
        proxy.swallow.set()
        with pytest.raises(redis.exceptions.TimeoutError):
            client.eval(COUNT, 1, key)


def _count_once_in_a_pipeline(client: redis.Redis, proxy: Proxy, key: str) -> None:
    with contextlib.closing(client), client.pipeline(transaction=False) as pipe:
        client.ping()
        pipe.execute_command("EVAL", COUNT, 1, key)
        proxy.swallow.set()
        with pytest.raises(redis.exceptions.TimeoutError):
            pipe.execute()


COUNT = "return redis.call('INCR', KEYS[1])"


@pytest.mark.parametrize("count", [_count_once, _count_once_in_a_pipeline])
@pytest.mark.parametrize("retry", ["yes", "no"])
def test_what_got_no_reply_is_not_sent_again(
    proxied: Callable[..., Proxy], redq: Redq, count: Callable[..., None], retry: str
) -> None:
    proxy, key = proxied(), redq.key("email", 0, "meta")
    location = f"redis://127.0.0.1:{proxy.port}?socket_timeout=0.1&retry_on_timeout={retry}"
    with alias(location) as connection, override_settings(REDQ={"CONNECTION": connection}):
        count(make_client(conf.get_config().connection), proxy, key)
    assert redq.client.get(key) == b"1"


@pytest.mark.parametrize("retry", ["yes", "no"])
def test_nor_by_asyncio(proxied: Callable[..., Proxy], redq: Redq, retry: str) -> None:
    proxy, key = proxied(), redq.key("email", 0, "meta")
    location = f"redis://127.0.0.1:{proxy.port}?socket_timeout=0.1&retry_on_timeout={retry}"

    async def run() -> None:
        client = make_async_client(conf.get_config().connection)
        await client.ping()
        proxy.swallow.set()
        with pytest.raises(redis.exceptions.TimeoutError):
            await client.execute_command("EVAL", COUNT, 1, key)
        await client.aclose()

    with alias(location) as connection, override_settings(REDQ={"CONNECTION": connection}):
        asyncio.run(run())
    assert redq.client.get(key) == b"1"


# --- Sentinels and a Cluster, as far as building the client goes --------------------------------


@pytest.fixture
def sentinel(server: DevServer, own_server: Start, tmp_path: Path) -> DevServer:
    """One Sentinel that watches the shared server as ``main``."""
    binary = tmp_path / "valkey-sentinel"  # By this name it knows what it is.
    binary.symlink_to(find_binary())
    return own_server(
        binary=binary,
        options={
            "sentinel monitor": f"main 127.0.0.1 {server.port} 1",
            "requirepass": '"watchword"',
        },
    )


def _sentinels(sentinel: DevServer, **options: Any) -> dict[str, Any]:
    return {
        "SENTINELS": [f"127.0.0.1:{sentinel.port}"],
        "SERVICE": "main",
        "OPTIONS": {"sentinel_kwargs": {"password": "watchword"}, **options},
    }


@both_worlds
def test_sentinels_lead_to_the_master(
    server: DevServer, sentinel: DevServer, redq: Redq, how: Ask
) -> None:
    key = redq.key("email", 0, "lease")
    how(_sentinels(sentinel), "SET", key, "me")
    assert redq.client.get(key) == b"me"
    how(_sentinels(sentinel, db=3), "SET", key, "other")
    with redis.Redis.from_url(f"redis://127.0.0.1:{server.port}/3", protocol=2) as third:
        assert third.getdel(key) == b"other"


@both_worlds
@pytest.mark.parametrize(
    "by",
    [
        {"CLIENT_CLASS": "django_redis.client.SentinelClient"},
        {"CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory"},
    ],
)
def test_an_alias_with_sentinels(sentinel: DevServer, how: Ask, by: dict[str, str]) -> None:
    options = {
        "SENTINELS": [("127.0.0.1", sentinel.port)],
        "SENTINEL_KWARGS": {"password": "watchword"},
        **by,
    }
    with alias("redis://main/0", OPTIONS=options) as connection:
        assert how(connection, "ECHO", "a") == b"a"


@both_worlds
def test_a_service_that_the_sentinels_do_not_know(sentinel: DevServer, how: Ask) -> None:
    with pytest.raises(redis.exceptions.ConnectionError, match="No master found for 'other'"):
        how({**_sentinels(sentinel), "SERVICE": "other"}, "PING")


def test_a_connection_by_sentinels_is_closed_when_reading_is_broken_off(
    sentinel: DevServer, redq: Redq
) -> None:
    """Else the late reply would be read as the answer to the next command."""
    with override_settings(REDQ={"CONNECTION": _sentinels(sentinel)}):
        client = make_client(conf.get_config().connection)
    pool = client.connection_pool
    assert isinstance(pool, SentinelConnectionPool)
    connection = pool.get_connection()
    connection.send_command("BLPOP", redq.key("email", 0, "nothing"), 1)
    connection._sock.settimeout(0.01)
    with pytest.raises(redis.exceptions.TimeoutError):
        connection.read_response()
    assert connection._sock is None
    pool.release(connection)
    assert client.echo("a") == b"a"
    client.close()


def test_a_cluster_of_one(own_server: Start) -> None:
    node = own_server(options={"cluster-enabled": "yes"})
    with redis.Redis.from_url(node.url, protocol=2) as plain:
        plain.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        while b"cluster_state:ok" not in plain.execute_command("CLUSTER", "INFO"):
            time.sleep(0.05)
    connection = {"CLUSTER": [f"127.0.0.1:{node.port}"]}
    ask(connection, "SET", "a", "b")
    assert ask(connection, "GET", "a") == aask(connection, "GET", "a") == b"b"


# --- a task's whole life over each -------------------------------------------------------------


@pytest.fixture
def tls_server(own_server: Start, tmp_path: Path) -> DevServer:
    """The installed Redis, which knows TLS; the embedded one does not."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("no redis-server on PATH")
    port = free_port()
    return own_server(
        binary=binary,
        options={
            "tls-port": str(port),
            "tls-cert-file": f'"{TLS / "server.pem"}"',
            "tls-key-file": f'"{TLS / "server.pem"}"',
            "tls-ca-cert-file": f'"{TLS / "ca.pem"}"',
            "tls-auth-clients": "no",
        },
    )


@contextlib.contextmanager
def over(form: str, request: pytest.FixtureRequest) -> Iterator[tuple[DevServer, Any]]:
    """A server, and ``CONNECTION`` to it."""
    ask_for = request.getfixturevalue
    login = {"username": USER, "password": PASSWORD}
    match form:
        case "alias":
            server = ask_for("server")
            pool = {"decode_responses": True, "protocol": 3, "max_connections": 1}
            pool |= {"health_check_interval": 1, "retry_on_timeout": True, "client_name": "site"}
            options = {
                "CONNECTION_POOL_KWARGS": pool,
                "PARSER_CLASS": "redis._parsers._RESP3Parser",
            }
            with alias(server.url, KEY_PREFIX="site", VERSION=7, OPTIONS=options) as connection:
                yield server, connection
        case "options":
            server = ask_for("server")
            keep = {"socket_keepalive": True, "client_name": "site", "db": 3}
            yield server, {"URL": server.url.removesuffix("/0"), "OPTIONS": keep}
        case "socket":
            server = ask_for("guarded")
            path = quote(str(server.unix_socket))
            yield (
                server,
                {"URL": f"unix://{path}?db=2", "OPTIONS": {**login, "socket_keepalive": True}},
            )
        case "tls":
            server = ask_for("tls_server")
            port = server.options["tls-port"]
            ca = {"ssl_ca_certs": str(TLS / "ca.pem")}
            yield server, {"URL": f"rediss://localhost:{port}/4", "OPTIONS": ca}
        case "sentinels":
            yield ask_for("server"), _sentinels(ask_for("sentinel"), db=3, client_name="site")


@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize("form", ["alias", "options", "socket", "tls", "sentinels"])
def test_a_task_lives_its_whole_life(request, form: str, face: str) -> None:
    with contextlib.ExitStack() as stack:
        server, connection = stack.enter_context(over(form, request))
        caches_of_it = settings.CACHES
        corner = Redq(server)
        stack.callback(corner.close)
        stack.enter_context(override_settings(CACHES=caches_of_it))
        queue = {"SHARDS": 1, "BLOCK_TIMEOUT": 0.2, "RETRY": {"POLICY": "fixed", "INTERVAL": 0.05}}
        changed = {"CONNECTION": connection, "QUEUES": {"default": queue}}
        stack.enter_context(override_settings(REDQ={**settings.REDQ, **changed}))
        assert not check_connection()
        corner._client = make_client(conf.get_config().connection)
        with registry.isolated():
            whole_life(Engine(corner, stack), face)
