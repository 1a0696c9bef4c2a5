"""Where a connection leads and how it behaves, as far as it shows without a server."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest
import redis
from django.test import override_settings
from redis.asyncio import Redis as AsyncRedis
from redis.connection import parse_url as redis_parse_url
from redis.credentials import UsernamePasswordCredentialProvider
from redis.retry import Retry
from redis.sentinel import SentinelManagedSSLConnection

from django_redq import conf
from django_redq.broker.alias import databases_of, resolve
from django_redq.broker.connection import make_async_client, make_client
from django_redq.conf.urls import parse_url
from django_redq.errors import ConfigurationError

NOBODY = "redis://127.0.0.1:1/0"
SECRET = "s3cr3t-w0rd"
SECONDS = "seconds (int or float) or a timedelta, from 0.001 to 3,600 s"
CHOICES = "'none' or 'optional' or 'required'"


def configured(connection: Any) -> conf.ConnectionConfig:
    with override_settings(REDQ={"CONNECTION": connection}):
        return conf.get_config().connection


def faults_of(connection: Any) -> list[str]:
    with override_settings(REDQ={"CONNECTION": connection}):
        return conf.find_faults()


def resolved(location: Any = NOBODY, **options: Any) -> conf.ConnectionConfig:
    """What an alias of django-redis stands for."""
    alias = {"BACKEND": "django_redq.cache.QueueCache", "LOCATION": location, "OPTIONS": options}
    with override_settings(CACHES={"redq": alias}, REDQ={}):
        return resolve(conf.get_config().connection)


def refusal(**params: Any) -> str:
    """What is said of an alias that we cannot connect by."""
    alias = {"BACKEND": "django_redq.cache.QueueCache", "LOCATION": NOBODY, **params}
    changed = override_settings(CACHES={"redq": alias}, REDQ={})
    with changed, pytest.raises(ConfigurationError) as caught:
        make_client(conf.get_config().connection)
    return str(caught.value)


reads_tls_parameters = pytest.mark.skipif(
    redis.VERSION < (8, 1), reason="redis-py before 8.1 leaves text there, which ssl refuses"
)


class TestUrls:
    @pytest.mark.parametrize(
        "url",
        [
            "redis://",
            "redis://example.org",
            "redis://example.org:7000/3",
            "redis://example.org:7000/3/",
            "redis://[::1]:7000/3",
            "redis://user:word@example.org/",
            "redis://:word@example.org/",
            "redis://us%40er:w%2Fo%3Fr%23d%25%3A@example.org:7000/1",
            "redis://user:p@ss@example.org",
            "redis://example.org/2?db=5&socket_timeout=1.5&socket_keepalive=no",
            "redis://example.org?username=user&password=w%40rd+x",
            "redis://example.org?password=w@rd",
            "rediss://example.org?ssl_cert_reqs=none&ssl_check_hostname=False",
            pytest.param(
                "rediss://example.org?ssl_ca_certs=%2Fetc%2Fca.pem&ssl_min_version=771",
                marks=reads_tls_parameters,
            ),
            pytest.param(
                "rediss://example.org?ssl_include_verify_flags=[VERIFY_X509_STRICT]",
                marks=reads_tls_parameters,
            ),
            "unix:///run/redis.sock",
            "unix:///run/redis.sock?db=2&password=w%23rd",
            "unix://user:word@/run/re%20dis.sock?client_name=me",
        ],
    )
    def test_they_are_read_as_redis_py_reads_them(self, url: str) -> None:
        theirs = redis_parse_url(url)
        if theirs.pop("connection_class", None) is redis.SSLConnection:
            theirs["ssl"] = True
        assert parse_url(url) == theirs

    @pytest.mark.parametrize(
        "url",
        [
            f"redis://user:{SECRET}#x@example.org:7000/0",
            f"redis://user:{SECRET}/x@example.org:7000/0",
            f"redis://user:{SECRET}?x@example.org:7000/0",
            f"redis://user:{SECRET}?x=y@example.org:7000/0",
            f"redis://user:7#{SECRET}@example.org:7000/0",
            f"redis://user:7/{SECRET}@example.org:7000/0",
            f"redis://user:7?{SECRET}@example.org:7000/0",
            f"redis://user:7?{SECRET}=1@example.org:7000/0",
            f"redis://user:[{SECRET}@example.org:7000/0",
            f"redis://example.org/0?password={SECRET}&socket_timeout=soon",
            f"redis://example.org/0?password={SECRET}&db",
            f"redis://example.org/{SECRET}",
            f"redis://example.org:{SECRET}/0",
            f"http://user:{SECRET}@example.org",
            f"user:{SECRET}@example.org",
            f"unix://{SECRET}/run/redis.sock",
            "unix://",
            "redis://example.org:99999",
            "redis://example.org/-1",
            "redis://example.org/1/2",
            "",
        ],
    )
    def test_what_a_client_would_misread_is_refused_without_showing_it(self, url: str) -> None:
        faults = faults_of({"URL": url})
        assert len(faults) == 1
        assert faults[0].startswith("REDQ['CONNECTION']['URL']: ")
        assert SECRET not in faults[0]

    def test_arguments_that_are_not_for_us_are_named(self) -> None:
        url = "redis://example.org?decode_responses=True&protocol=3&sokcet_timeout=3"
        assert faults_of({"URL": url}) == [
            (
                "REDQ['CONNECTION']['URL']: its argument 'decode_responses' is what django-redq "
                "sets for itself; leave it out"
            ),
            (
                "REDQ['CONNECTION']['URL']: its argument 'protocol' is what django-redq sets for "
                "itself; leave it out"
            ),
            (
                "REDQ['CONNECTION']['URL']: unknown argument 'sokcet_timeout'; did you mean "
                "'socket_timeout'?"
            ),
        ]


class TestForms:
    def test_a_url_beats_the_options(self) -> None:
        found = configured(
            {
                "URL": "redis://user@example.org/3",
                "OPTIONS": {"db": 5, "username": "other", "socket_timeout": 1, "client_name": None},
            }
        )
        assert str(found) == "redis://example.org:6379/3"
        assert found.options == {"username": "user", "socket_timeout": 1.0}

    def test_sentinels(self) -> None:
        found = configured(
            {
                "SENTINELS": ["a", "b:7000", ("c", 7001), "[::1]:7002", "::1"],
                "SERVICE": "main",
                "OPTIONS": {
                    "db": 2,
                    "ssl": True,
                    "password": SECRET,
                    "sentinel_kwargs": {"password": "other", "socket_timeout": 1},
                },
            }
        )
        assert found.nodes == (
            ("a", 26379),
            ("b", 7000),
            ("c", 7001),
            ("::1", 7002),
            ("::1", 26379),
        )
        assert (found.service, found.db, found.tls) == ("main", 2, True)
        assert found.options == {"password": SECRET}
        assert found.sentinel_options == {"password": "other", "socket_timeout": 1.0}

    def test_a_cluster(self) -> None:
        found = configured({"CLUSTER": ["a:7000", "b"], "OPTIONS": {"ssl": True}})
        assert (found.nodes, found.tls) == ((("a", 7000), ("b", 6379)), True)
        assert str(found) == "the cluster of a:7000,b:6379"

    @pytest.mark.parametrize(
        ("given", "fault"),
        [
            ({}, ": needs one of CACHE, URL, SENTINELS and CLUSTER; it has none"),
            (
                {"CACHE": "a", "URL": NOBODY},
                ": needs one of CACHE, URL, SENTINELS and CLUSTER; it has CACHE and URL",
            ),
            ({"CACHE": 3}, "['CACHE']: must be text, got an int"),
            (
                {"CACHE": "redq", "OPTIONS": {}},
                ": 'OPTIONS' does not belong here but into CACHES[<alias>]['OPTIONS']",
            ),
            ({"URL": 3}, "['URL']: must be text, got an int"),
            ({"URL": NOBODY, "OPTIONS": []}, "['OPTIONS']: must be a dict, got a list"),
            (
                {"URL": NOBODY, "OPTIONS": {"retry_on_timeout": True}},
                "['OPTIONS']: 'retry_on_timeout' is what django-redq sets for itself; leave it out",
            ),
            (
                {"URL": NOBODY, "OPTIONS": {"socket_timeout": None, "socket_timout": 3}},
                "['OPTIONS']: unknown key 'socket_timout'; did you mean 'socket_timeout'?",
            ),
            (
                {"URL": NOBODY, "OPTIONS": {"socket_timeout": True}},
                f"['OPTIONS']['socket_timeout']: must be {SECONDS}, got True",
            ),
            (
                {"URL": NOBODY, "OPTIONS": {"password": [SECRET]}},
                "['OPTIONS']['password']: must be text, got a list",
            ),
            (
                {"URL": NOBODY, "OPTIONS": {"ssl_ca_certs": "ca.pem"}},
                ": 'ssl_ca_certs' needs TLS: a rediss:// URL, or 'ssl': True",
            ),
            (
                {"URL": "unix:///run/redis.sock", "OPTIONS": {"ssl": True}},
                ": TLS does not go over a Unix socket",
            ),
            (
                {"URL": "rediss://h", "OPTIONS": {"ssl_cert_reqs": "maybe"}},
                f"['OPTIONS']['ssl_cert_reqs']: must be {CHOICES}, got 'maybe'",
            ),
            ({"SENTINELS": ["a"]}, "['SERVICE']: is missing"),
            (
                {"SENTINELS": [], "SERVICE": "main"},
                "['SENTINELS']: must be a list of 'host:port', and not empty",
            ),
            (
                {"SENTINELS": ["a"], "SERVICE": "main", "OPTIONS": {"sentinel_kwargs": {"db": 1}}},
                "['OPTIONS']['sentinel_kwargs']: 'db' does not go with this kind of connection",
            ),
            (
                {"CLUSTER": [f"redis://:{SECRET}@a:1"]},
                "['CLUSTER'][0]: must be 'host:port' or (host, port)",
            ),
            ({"CLUSTER": [("a", "1")]}, "['CLUSTER'][0]: must be 'host:port' or (host, port)"),
            ({"CLUSTER": ["a:99999"]}, "['CLUSTER'][0]: must be 'host:port' or (host, port)"),
            (
                {"CLUSTER": ["a"], "OPTIONS": {"db": 1}},
                "['OPTIONS']: 'db' does not go with this kind of connection",
            ),
            (f"redis://:{SECRET}@a", ": must be a dict such as {'CACHE': 'redq'}, got a str"),
        ],
    )
    def test_faults(self, given: Any, fault: str) -> None:
        assert faults_of(given) == [f"REDQ['CONNECTION']{fault}"]

    def test_two_ways_to_log_in(self) -> None:
        options = {"credential_provider": UsernamePasswordCredentialProvider("user", SECRET)}
        assert faults_of({"URL": "redis://user@a", "OPTIONS": options}) == [
            (
                "REDQ['CONNECTION']: 'credential_provider' stands in for user name and password; "
                "give one"
            )
        ]


class TestAliases:
    def test_where_and_how_to_log_in_is_taken(self) -> None:
        found = resolved(
            "rediss://example.org:7000/3",
            USERNAME="user",
            PASSWORD=SECRET,
            SOCKET_TIMEOUT=7,
            SOCKET_CONNECT_TIMEOUT=3.5,
            CONNECTION_POOL_KWARGS={"ssl_ca_certs": "/etc/ca.pem", "ssl_cert_reqs": None},
        )
        assert str(found) == "rediss://example.org:7000/3"
        assert found.options == {
            "username": "user",
            "password": SECRET,
            "socket_timeout": 7.0,
            "socket_connect_timeout": 3.5,
            "ssl_ca_certs": "/etc/ca.pem",
            "ssl_cert_reqs": "none",
        }

    def test_the_url_beats_the_pools_kwargs_beat_the_options(self) -> None:
        found = resolved(
            "redis://url@example.org?socket_timeout=3",
            USERNAME="options",
            PASSWORD="options",
            SOCKET_TIMEOUT=1,
            CONNECTION_POOL_KWARGS={"username": "pool", "password": "pool", "db": 4, "port": 7000},
        )
        assert str(found) == "redis://example.org:7000/4"
        assert found.options == {"username": "url", "password": "pool", "socket_timeout": 3.0}

    def test_what_serves_the_cache_stays_there(self) -> None:
        found = resolved(
            f"{NOBODY}?decode_responses=True&protocol=3&health_check_interval=5&client_name=cache",
            PARSER_CLASS="redis._parsers._RESP3Parser",
            SERIALIZER="django_redis.serializers.json.JSONSerializer",
            COMPRESSOR="django_redis.compressors.zlib.ZlibCompressor",
            IGNORE_EXCEPTIONS=True,
            CONNECTION_POOL_CLASS="redis.BlockingConnectionPool",
            REDIS_CLIENT_CLASS="redis.client.StrictRedis",
            REDIS_CLIENT_KWARGS={"decode_responses": True},
            CONNECTION_POOL_KWARGS={
                "decode_responses": True,
                "protocol": 3,
                "encoding": "latin-1",
                "retry_on_timeout": True,
                "retry": Retry(None, 5),  # type: ignore[arg-type]
                "max_connections": 1,
                "timeout": 20,
                "socket_timeout": None,
            },
        )
        assert found.options == {}

    @pytest.mark.parametrize(
        "location",
        [
            "redis://a/1,redis://b/1",
            "redis://a/1, redis://b/1",
            ["redis://a/1", "redis://b/1"],
            ("redis://a/1",),
        ],
    )
    def test_of_several_locations_the_first_is_the_primary(self, location: Any) -> None:
        assert str(resolved(location)) == "redis://a:6379/1"

    def test_a_comma_in_the_password_does_not_split_the_location(self) -> None:
        assert resolved("redis://:a,b@example.org/1").options == {"password": "a,b"}

    @pytest.mark.parametrize("client", ["DefaultClient", "HerdClient"])
    def test_the_clients_of_one_server(self, client: str) -> None:
        assert resolved(CLIENT_CLASS=f"django_redis.client.{client}").kind == "url"

    @pytest.mark.parametrize(
        "how",
        [
            {"CLIENT_CLASS": "django_redis.client.SentinelClient"},
            {"CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory"},
        ],
    )
    def test_sentinels(self, how: dict[str, str]) -> None:
        found = resolved(
            "redis://user:word@main/2?is_master=0",
            SENTINELS=[("a", 1), ("b", 2)],
            SENTINEL_KWARGS={"password": SECRET, "decode_responses": True},
            CONNECTION_POOL_KWARGS={"connection_class": SentinelManagedSSLConnection},
            **how,
        )
        assert (found.kind, found.service, found.db, found.tls) == ("sentinels", "main", 2, True)
        assert found.nodes == (("a", 1), ("b", 2))
        assert found.options == {"username": "user", "password": "word"}
        assert found.sentinel_options == {"password": SECRET}

    @override_settings(
        DJANGO_REDIS_CONNECTION_FACTORY="django_redis.pool.SentinelConnectionFactory"
    )
    def test_the_factory_may_be_a_setting(self) -> None:
        assert resolved("redis://main/0", SENTINELS=[("a", 1)]).kind == "sentinels"

    @pytest.mark.parametrize(
        ("params", "fault"),
        [
            ({"LOCATION": ""}, "['LOCATION']: must start with redis://"),
            ({"LOCATION": ["127.0.0.1:6379"]}, "['LOCATION']: must start with redis://"),
            ({"LOCATION": f"redis://:{SECRET}#@a"}, "['LOCATION']: cannot be read as a URL"),
            ({"LOCATION": 3}, "['LOCATION']: must be text"),
            ({"OPTIONS": []}, "['OPTIONS']: must be a dict, got a list"),
            ({"OPTIONS": {"PASSWORD": [SECRET]}}, "['OPTIONS']['PASSWORD']: must be text, got a"),
            (
                {"OPTIONS": {"SOCKET_TIMEOUT": "5"}},
                "['OPTIONS']['SOCKET_TIMEOUT']: must be seconds",
            ),
            (
                {"OPTIONS": {"CONNECTION_POOL_KWARGS": 3}},
                "['OPTIONS']['CONNECTION_POOL_KWARGS']: must be a dict, got an int",
            ),
            (
                {"OPTIONS": {"CONNECTION_POOL_KWARGS": {"ssl_validate_ocsp": True}}},
                "['OPTIONS']['CONNECTION_POOL_KWARGS']: OCSP is not for us",
            ),
            (
                {"OPTIONS": {"CLIENT_CLASS": "django_redis.client.ShardClient"}},
                "['OPTIONS']['CLIENT_CLASS']: must be DefaultClient, HerdClient or SentinelClient",
            ),
            (
                {"OPTIONS": {"CLIENT_CLASS": "no.such.Client"}},
                "['OPTIONS']['CLIENT_CLASS']: 'no.such.Client' cannot be imported",
            ),
            (
                {"OPTIONS": {"CONNECTION_FACTORY": f"{__name__}.OwnFactory"}},
                "['OPTIONS']['CONNECTION_FACTORY']: makes connections in a way of its own",
            ),
            (
                {"OPTIONS": {"CLIENT_CLASS": "django_redis.client.SentinelClient"}},
                "['OPTIONS']['SENTINELS']: must be a list of 'host:port'",
            ),
            (
                {
                    "LOCATION": "unix:///run/redis.sock",
                    "OPTIONS": {
                        "CLIENT_CLASS": "django_redis.client.SentinelClient",
                        "SENTINELS": [("a", 1)],
                    },
                },
                "['LOCATION']: must be redis://<name of the service>/<database>",
            ),
        ],
    )
    def test_faults(self, params: Any, fault: str) -> None:
        told = refusal(**params)
        assert told.startswith(f"CACHES['redq']{fault}")
        assert SECRET not in told

    @pytest.mark.parametrize(
        "backend",
        [
            "django.core.cache.backends.locmem.LocMemCache",
            "django.core.cache.backends.redis.RedisCache",
            "no.such.Cache",
            "django_redq.conf.get_config",
        ],
    )
    def test_another_backend_is_told_the_lines_to_add(self, backend: str) -> None:
        told = refusal(BACKEND=backend)
        assert f"whose BACKEND is {backend!r}" in told
        assert '"BACKEND": "django_redq.cache.QueueCache"' in told
        assert "'redq': {" in told

    @override_settings(CACHES={"default": {}}, REDQ={"CONNECTION": {"CACHE": "queues"}})
    def test_an_alias_that_is_not_there_is_told_the_lines_to_add(self) -> None:
        with pytest.raises(ConfigurationError) as caught:
            make_client(conf.get_config().connection)
        assert "the cache alias 'queues', which CACHES has not" in str(caught.value)
        assert '\'queues\': {\n        "BACKEND": "django_redq.cache.QueueCache"' in str(
            caught.value
        )


class OwnFactory:
    pass


class TestDatabases:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({"LOCATION": "redis://127.0.0.1/1"}, {"LOCATION": "redis://localhost:6379/1"}),
            ({"LOCATION": "redis://user:word@a/1"}, {"LOCATION": "rediss://a:6379?db=1"}),
            ({"LOCATION": "redis://a/1"}, {"LOCATION": "redis://a", "OPTIONS": {"db": "1"}}),
            ({"LOCATION": "unix:///s?db=1"}, {"LOCATION": "unix://user@/s?db=1"}),
            (
                {"LOCATION": "redis://a/1"},
                {"LOCATION": "redis://a", "OPTIONS": {"CONNECTION_POOL_KWARGS": {"db": 1}}},
            ),
            (
                {"LOCATION": "redis://main/1", "OPTIONS": {"SENTINELS": [("a", 1), ("b", 2)]}},
                {"LOCATION": "redis://main/1", "OPTIONS": {"SENTINELS": [("b", 2), ("a", 1)]}},
            ),
        ],
    )
    def test_the_same(self, one: Any, other: Any) -> None:
        assert databases_of(one) == databases_of(other)
        assert len(databases_of(one)) == 1

    @pytest.mark.parametrize(
        "other",
        [
            {"LOCATION": "redis://a/2"},
            {"LOCATION": "redis://b/1"},
            {"LOCATION": "redis://a:7000/1"},
            {"LOCATION": "redis://a/1", "OPTIONS": {"SENTINELS": [("a", 1)]}},
            {"LOCATION": "10.0.0.1:11211"},
            {"LOCATION": "/var/cache/site"},
            {"LOCATION": ["redis://a:x/1"]},
            {"LOCATION": "redis://a/1", "OPTIONS": {"db": "x"}},
            {"LOCATION": "redis:///1", "OPTIONS": {"SENTINELS": [("a", 1)]}},
            {"LOCATION": "redis://a/1", "OPTIONS": [3]},
            {"LOCATION": "redis://a/1", "OPTIONS": {"CONNECTION_POOL_KWARGS": 3}},
            {},
        ],
    )
    def test_others(self, other: Any) -> None:
        assert not databases_of({"LOCATION": "redis://a/1"}) & databases_of(other)

    def test_all_locations_count(self) -> None:
        both = databases_of({"LOCATION": "redis://a/1,redis://b/1"})
        assert both == databases_of({"LOCATION": ["redis://a/1", "redis://b/1"]})
        assert len(both) == 2


SINGLE = {"URL": f"redis://user:{SECRET}@127.0.0.1:1/2"}
SENTINELS = {
    "SENTINELS": ["127.0.0.1:1"],
    "SERVICE": "main",
    "OPTIONS": {"password": SECRET, "sentinel_kwargs": {"password": SECRET}},
}
SOCKET = {"URL": f"unix://user:{SECRET}@/nowhere.sock?db=2", "OPTIONS": {"socket_keepalive": True}}
TLS = {"URL": f"rediss://:{SECRET}@127.0.0.1:1", "OPTIONS": {"ssl_ca_certs": "/ca.pem"}}
MAKERS = [make_client, make_async_client]


class TestClients:
    """One server, a socket, TLS and Sentinels, on both of redis-py's worlds."""

    @pytest.mark.parametrize("make", MAKERS)
    @pytest.mark.parametrize("given", [SINGLE, SENTINELS, SOCKET, TLS])
    def test_what_the_engine_hangs_on_is_ours(self, make: Any, given: Any) -> None:
        connection = make(configured(given)).connection_pool.make_connection()
        assert connection.protocol == 2
        assert connection.retry.get_retries() == 0
        assert connection.retry_on_error == []
        assert connection.health_check_interval == 0
        assert connection.encoder.decode_responses is False
        assert connection.encoder.encoding == "utf-8"
        assert (connection.socket_timeout, connection.socket_connect_timeout) == (5.0, 2.0)

    @pytest.mark.parametrize("make", MAKERS)
    def test_the_sentinels_own_connections_are_no_others(self, make: Any) -> None:
        (one,) = make(configured(SENTINELS)).connection_pool.sentinel_manager.sentinels
        connection = one.connection_pool.make_connection()
        assert connection.protocol == 2
        assert connection.retry.get_retries() == 0
        assert connection.password == SECRET
        assert (connection.socket_timeout, connection.socket_connect_timeout) == (5.0, 2.0)

    @pytest.mark.parametrize("make", MAKERS)
    def test_time_outs_may_be_set(self, make: Any) -> None:
        given = {"URL": NOBODY, "OPTIONS": {"socket_timeout": 60, "socket_connect_timeout": 0.5}}
        connection = make(configured(given)).connection_pool.make_connection()
        assert (connection.socket_timeout, connection.socket_connect_timeout) == (60.0, 0.5)

    @pytest.mark.parametrize("make", MAKERS)
    def test_where_it_leads(self, make: Any) -> None:
        one = make(configured(SINGLE)).connection_pool.make_connection()
        assert (one.host, one.port, one.db) == ("127.0.0.1", 1, 2)
        assert (one.username, one.password) == ("user", SECRET)
        socket = make(configured(SOCKET)).connection_pool.make_connection()
        assert (socket.path, socket.db, socket.password) == ("/nowhere.sock", 2, SECRET)

    @pytest.mark.parametrize("make", MAKERS)
    def test_tls_checks_certificate_and_host_unless_told_otherwise(self, make: Any) -> None:
        strict = make(configured(TLS)).connection_pool.make_connection()
        assert (strict.cert_reqs, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
        assert strict.ca_certs == "/ca.pem"
        lax = {"URL": "rediss://a", "OPTIONS": {"ssl_cert_reqs": None}}
        assert make(configured(lax)).connection_pool.make_connection().cert_reqs == ssl.CERT_NONE

    def test_each_client_has_a_pool_of_its_own(self) -> None:
        connection = configured(SINGLE)
        one, other = make_client(connection), make_client(connection)
        assert one.connection_pool is not other.connection_pool

    @pytest.mark.parametrize("make", MAKERS)
    def test_the_pool_has_no_bound_at_which_a_consumer_would_stand_still(self, make: Any) -> None:
        assert make(configured(SINGLE)).connection_pool.max_connections == 2**31 - 1

    @pytest.mark.parametrize(
        "connection",
        [
            {"URL": NOBODY, "OPTIONS": {"max_connections": 7}},
            {"URL": f"{NOBODY}?max_connections=7"},
            {"CLUSTER": ["a:1"], "OPTIONS": {"max_connections": 7}},
            {"SENTINELS": ["a:1"], "SERVICE": "main", "OPTIONS": {"max_connections": 7}},
        ],
    )
    def test_nor_may_one_be_given(self, connection: dict[str, Any]) -> None:
        [fault] = faults_of(connection)
        assert fault.endswith("'max_connections' is what django-redq sets for itself; leave it out")

    def test_a_failure_to_connect_is_redis_pys_own(self) -> None:
        with pytest.raises(redis.exceptions.ConnectionError):
            make_client(configured({"URL": NOBODY})).ping()

        async def ask() -> None:
            client: AsyncRedis = make_async_client(configured({"URL": NOBODY}))
            with pytest.raises(redis.exceptions.ConnectionError):
                await client.ping()

        asyncio.run(ask())

    def test_the_cluster_client_of_asyncio_waits_for_its_first_use(self) -> None:
        client: Any = make_async_client(
            configured({"CLUSTER": ["127.0.0.1:1"], "OPTIONS": {"password": SECRET}})
        )
        assert client.retry.get_retries() == 0
        assert client.connection_kwargs["protocol"] == 2
        assert client.connection_kwargs["decode_responses"] is False

    def test_the_blocking_cluster_client_asks_at_once(self) -> None:
        given = {"CLUSTER": ["127.0.0.1:1"], "OPTIONS": {"password": SECRET}}
        with pytest.raises(redis.exceptions.RedisClusterException) as caught:
            make_client(configured(given))
        assert SECRET not in str(caught.value)


class TestSecrets:
    @pytest.mark.parametrize("given", [SINGLE, SENTINELS, SOCKET, TLS])
    def test_no_repr_shows_them(self, given: Any) -> None:
        with override_settings(REDQ={"CONNECTION": given}):
            config = conf.get_config()
        connection = config.connection
        things = [config, connection, resolve(connection), make_client(connection)]
        things += [thing.connection_pool for thing in things if isinstance(thing, redis.Redis)]
        things += [make_async_client(connection), make_async_client(connection).connection_pool]
        for thing in things:
            assert SECRET not in repr(thing)
            assert SECRET not in str(thing)

    def test_nor_does_the_error_of_a_server_that_is_not_there(self) -> None:
        for given in (SINGLE, SENTINELS, SOCKET):
            with pytest.raises(redis.exceptions.ConnectionError) as caught:
                make_client(configured(given)).ping()
            assert SECRET not in repr(caught.value)
