"""``REDQ["CONNECTION"]``: which Redis, and the keyword arguments of redis-py that may go along.

What is said here about a value never shows it: a URL, an option or a whole dict may hold a
password.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from django_redq.conf import rules
from django_redq.conf.options import FOR_CLUSTER, FOR_SENTINELS, agree, options
from django_redq.conf.rules import Key, RuleError, problem
from django_redq.conf.urls import parse_url

Kind = Literal["cache", "url", "sentinels", "cluster"]
Address = tuple[str, int]

REDIS_PORT = 6379
SENTINEL_PORT = 26379
DEFAULT: Mapping[str, Any] = MappingProxyType({"CACHE": "redq"})
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionConfig:
    """Where Redis is. ``repr`` shows no credentials."""

    kind: Kind
    alias: str = ""
    """``cache``: the alias of ``CACHES``; :mod:`django_redq.broker.alias` tells what it means."""
    host: str = "localhost"
    """``url``: with ``port`` the server, unless ``path`` is the Unix socket to it."""
    port: int = REDIS_PORT
    path: str = ""
    db: int = 0
    tls: bool = False
    nodes: tuple[Address, ...] = ()
    """``sentinels``, ``cluster``: whom to ask first."""
    service: str = ""
    """``sentinels``: the name that they give the master."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Keyword arguments of a redis-py connection."""
    sentinel_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The same for connections to the Sentinels themselves."""

    def __str__(self) -> str:
        """For log lines and one-line errors; without credentials."""
        nodes = ",".join(f"{host}:{port}" for host, port in self.nodes)
        match self.kind:
            case "cache":
                return f"the cache alias {self.alias!r}"
            case "url":
                return self._url()
            case "sentinels":
                return f"service {self.service!r} of the Sentinels {nodes}"
            case "cluster":
                return f"the cluster of {nodes}"

    @property
    def database(self) -> Hashable:
        """The same for two connections that lead to the same database, as far as one can see."""
        host = "localhost" if self.host in {"127.0.0.1", "::1"} else self.host
        server = self.path or (host, self.port)
        return (self.db, frozenset(self.nodes), self.service or server)

    def _url(self) -> str:
        if self.path:
            return f"unix://{self.path}?db={self.db}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"redis{'s' if self.tls else ''}://{host}:{self.port}/{self.db}"


# --- the forms -------------------------------------------------------------------------------


def _from_cache(*, cache: str) -> ConnectionConfig:
    return ConnectionConfig(kind="cache", alias=cache)


def _from_url(*, url: dict[str, Any], options: dict[str, Any]) -> ConnectionConfig:
    # The URL wins, as in redis-py.
    return server({**options, **url})


def server(values: dict[str, Any]) -> ConnectionConfig:
    """One server, from what :func:`parse_url` and :func:`options` have read."""
    tls, rest = agree(values)
    if tls and "path" in rest:
        raise problem("TLS does not go over a Unix socket")
    places = {key: rest.pop(key) for key in ("host", "port", "path", "db") if key in rest}
    return ConnectionConfig(kind="url", tls=tls, options=MappingProxyType(rest), **places)


def _from_sentinels(
    *, sentinels: tuple[Address, ...], service: str, options: dict[str, Any]
) -> ConnectionConfig:
    return through_sentinels(sentinels, service, options)


def through_sentinels(
    nodes: tuple[Address, ...], service: str, values: dict[str, Any]
) -> ConnectionConfig:
    """The master that Sentinels name; ``sentinel_kwargs`` among the values are for themselves."""
    tls, rest = agree(values)
    return ConnectionConfig(
        kind="sentinels",
        nodes=nodes,
        service=service,
        db=rest.pop("db", 0),
        tls=tls,
        sentinel_options=MappingProxyType(rest.pop("sentinel_kwargs", {})),
        options=MappingProxyType(rest),
    )


def _from_cluster(*, cluster: tuple[Address, ...], options: dict[str, Any]) -> ConnectionConfig:
    tls, rest = agree(options)
    return ConnectionConfig(kind="cluster", nodes=cluster, tls=tls, options=MappingProxyType(rest))


def addresses(default_port: int) -> rules.Rule:
    """A list of ``"host:port"`` or ``(host, port)``."""

    def rule(value: object) -> tuple[Address, ...]:
        if not isinstance(value, list | tuple) or not value:
            raise problem("must be a list of 'host:port', and not empty")
        return tuple(_address(node, position, default_port) for position, node in enumerate(value))

    return rule


def _address(node: object, position: int, default_port: int) -> Address:
    if isinstance(node, str) and "@" not in node and "/" not in node:
        host, _, port = node.rpartition(":") if _has_port(node) else (node, "", str(default_port))
        if host and port.isdecimal() and int(port) < 65_536:
            return host.strip("[]"), int(port)
    if isinstance(node, list | tuple) and len(node) == 2:
        host, number = node
        if isinstance(host, str) and host and isinstance(number, int) and 0 < number < 65_536:
            return host, number
    raise RuleError((f"[{position}]", "must be 'host:port' or (host, port)"))


def _has_port(node: str) -> bool:
    """An IPv6 address has colons of its own; with a port it stands in brackets."""
    return node.count(":") == 1 or "]:" in node


def _sentinel_options(given: object) -> dict[str, Any]:
    """``OPTIONS`` of the Sentinels' form, where redis-py's own ``sentinel_kwargs`` may be."""
    plain = dict(given) if isinstance(given, Mapping) else given
    inner = plain.pop("sentinel_kwargs", None) if isinstance(plain, dict) else None
    values = options(plain)
    if inner is not None:
        check = partial(options, allowed=FOR_SENTINELS)
        values["sentinel_kwargs"] = rules.at("['sentinel_kwargs']", check, inner)
    return values


_FORMS: dict[str, Callable[[object], ConnectionConfig]] = {
    "CACHE": rules.section(
        {"CACHE": Key(rules.text)}, _from_cache, {"OPTIONS": "CACHES[<alias>]['OPTIONS']"}
    ),
    "URL": rules.section({"URL": Key(parse_url), "OPTIONS": Key(options, _NOTHING)}, _from_url),
    "SENTINELS": rules.section(
        {
            "SENTINELS": Key(addresses(SENTINEL_PORT)),
            "SERVICE": Key(rules.text),
            "OPTIONS": Key(_sentinel_options, _NOTHING),
        },
        _from_sentinels,
    ),
    "CLUSTER": rules.section(
        {
            "CLUSTER": Key(addresses(REDIS_PORT)),
            "OPTIONS": Key(partial(options, allowed=FOR_CLUSTER), _NOTHING),
        },
        _from_cluster,
    ),
}


def connection(given: object) -> ConnectionConfig:
    """The rule for ``CONNECTION``: one of the four forms."""
    if not isinstance(given, Mapping):
        raise problem(f"must be a dict such as {{'CACHE': 'redq'}}, got {rules.a(given)}")
    forms = [form for form in _FORMS if form in given]
    if len(forms) != 1:
        found = f"has {' and '.join(forms)}" if forms else _without_form(given)
        raise problem(f"needs one of CACHE, URL, SENTINELS and CLUSTER; it {found}")
    return _FORMS[forms[0]](given)


def _without_form(given: Mapping[object, object]) -> str:
    unknown = [rules.unknown(key, _FORMS) for key in given if key not in {"OPTIONS", "SERVICE"}]
    return f"has none ({'; '.join(unknown)})" if unknown else "has none"
