"""Who handles what: filled by ``@handler`` and ``@dead_letter_handler`` as modules are imported."""

from __future__ import annotations

from django_redq.registry.discovery import autodiscover
from django_redq.registry.registration import Registration
from django_redq.registry.store import Registry

__all__ = [
    "Registration",
    "Registry",
    "add",
    "add_dead_letter_handler",
    "autodiscover",
    "clear",
    "dead_letter_handlers",
    "faults",
    "faults_by_kind",
    "find",
    "isolated",
    "kinds",
    "resolve",
]

_registry = Registry()

add = _registry.add
add_dead_letter_handler = _registry.add_dead_letter_handler
clear = _registry.clear
dead_letter_handlers = _registry.dead_letter_handlers
faults = _registry.faults
faults_by_kind = _registry.faults_by_kind
find = _registry.find
isolated = _registry.isolated
kinds = _registry.kinds
resolve = _registry.resolve
