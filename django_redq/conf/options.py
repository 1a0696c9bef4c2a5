"""``OPTIONS`` of a connection: the keyword arguments of redis-py that may be given, and their types.

A message never shows the value of an option that may be secret.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from ssl import VerifyMode
from typing import Any

from django_redq.conf import rules
from django_redq.conf.rules import RuleError, problem

_SECONDS = rules.duration(0.001, 3_600)


def _cert_reqs(value: object) -> str | VerifyMode:
    """None is redis-py's word for "none", and much used; elsewhere None means not given."""
    if isinstance(value, VerifyMode):
        return value
    if value is None:
        return "none"
    return str(rules.one_of("none", "optional", "required")(value))


_SSL: dict[str, rules.Rule] = {
    "ssl_keyfile": rules.text,
    "ssl_certfile": rules.text,
    "ssl_cert_reqs": _cert_reqs,
    "ssl_include_verify_flags": rules.anything,
    "ssl_exclude_verify_flags": rules.anything,
    "ssl_ca_certs": rules.text,
    "ssl_ca_path": rules.text,
    "ssl_ca_data": rules.secret,
    "ssl_check_hostname": rules.flag,
    "ssl_password": rules.secret,
    "ssl_min_version": rules.anything,
    "ssl_ciphers": rules.text,
}
OPTIONS: Mapping[str, rules.Rule] = {
    "username": rules.secret,
    "password": rules.secret,
    "credential_provider": rules.anything,
    "client_name": rules.text,
    "db": rules.whole(0),
    "socket_timeout": _SECONDS,
    "socket_connect_timeout": _SECONDS,
    "socket_keepalive": rules.flag,
    "socket_keepalive_options": rules.anything,
    "socket_read_size": rules.whole(1),
    "ssl": rules.flag,
    **_SSL,
}
"""What may be given, for all kinds of connection; redis-py's own names."""

OURS = frozenset(
    {
        "connection_class",
        "connection_pool",
        "decode_responses",
        "encoding",
        "encoding_errors",
        "health_check_interval",
        "legacy_responses",
        "max_connections",
        "parser_class",
        "protocol",
        "redis_connect_func",
        "retry",
        "retry_on_error",
        "retry_on_timeout",
        "single_connection_client",
    }
)
"""What the engine's correctness hangs on: a reply decoded otherwise is misread, a script that is
sent again behind our back may run twice, and a pool that is empty stops a queue for good."""

FOR_SENTINELS = OPTIONS.keys() - {"db"}
"""For the connections to the Sentinels themselves."""

# redis-py's cluster clients take these not at all, or drop them without a word.
FOR_CLUSTER = OPTIONS.keys() - {
    "db",
    "ssl_ca_path",
    "ssl_ciphers",
    "ssl_min_version",
    "ssl_password",
}


def options(given: object, allowed: Collection[str] = OPTIONS) -> dict[str, Any]:
    """The keyword arguments for redis-py; None means not given.

    Raises:
        RuleError: naming each that is unknown, ours to set, or of a wrong type.
    """
    if not isinstance(given, Mapping):
        raise problem(f"must be a dict, got {rules.a(given)}")
    faults = [("", _refusal(key, allowed)) for key in given if key not in allowed]
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key in allowed and (value is not None or key == "ssl_cert_reqs"):
            try:
                values[key] = OPTIONS[key](value)
            except RuleError as error:
                faults += error.below(f"[{key!r}]")
    if faults:
        raise RuleError(*faults)
    return values


def _refusal(key: object, allowed: Collection[str]) -> str:
    if key in OURS:
        return f"{key!r} is what django-redq sets for itself; leave it out"
    if key in OPTIONS:
        return f"{key!r} does not go with this kind of connection"
    return rules.unknown(key, allowed)


def agree(values: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    """(TLS or not, the other options), once it is sure that they go together.

    Raises:
        RuleError: TLS options without TLS, which would go unheeded; two ways to log in.
    """
    rest = {key: value for key, value in values.items() if key != "ssl"}
    tls = bool(values.get("ssl"))
    if not tls and (idle := sorted(_SSL.keys() & rest.keys())):
        raise problem(f"{idle[0]!r} needs TLS: a rediss:// URL, or 'ssl': True")
    if "credential_provider" in rest and {"username", "password"} & rest.keys():
        raise problem("'credential_provider' stands in for user name and password; give one")
    return tls, rest
