"""What may be said to ``manage.py redq_dlq``."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redq.management.command import moment, positive, seconds
from django_redq.outcome import Reason

FILTERS = (
    "shard",
    "kind",
    "reason",
    "exception_type",
    "idempotency_key",
    "text",
    "since",
    "until",
    "older_than",
)
"""Options that say which letters, named as in the API."""


def filters_of(options: dict[str, Any]) -> Any:
    """Which letters are asked for, as the API wants it."""
    return {name: options[name] for name in FILTERS if options[name] is not None}


def want_all_or_filters(options: dict[str, Any]) -> None:
    if not filters_of(options) and options["count"] is None and not options["all"]:
        raise CommandError("say which dead letters: --all, or --kind, --reason, --older-than ...")


def refuse_filters(options: dict[str, Any]) -> None:
    if filters_of(options) or options["count"] is not None or options["all"]:
        raise CommandError(
            "name TASK_IDs, or say which dead letters by --all and the like; not both"
        )


def refuse_what_only_the_background_knows(options: dict[str, Any]) -> None:
    if options["background"] or options.get("spread") is not None:
        raise CommandError("--background and --spread are for many: --all, or --kind, --reason ...")


def add_actions(parser: CommandParser) -> None:
    """A parser for each action."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, (about, add) in ACTIONS.items():
        add(actions.add_parser(name, help=about, description=f"{about.capitalize()}."))


def _document(text: str) -> list[Any]:
    """In a list, for null is one, too."""
    try:
        return [json.loads(text)]
    except ValueError as error:
        raise ArgumentTypeError(f"must be JSON: {error}") from None


# --- what several actions have ---------------------------------------------------------------


def _add_common(parser: CommandParser) -> None:
    parser.add_argument("queue", metavar="QUEUE")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_filters(parser: CommandParser) -> None:
    _add_common(parser)
    which = parser.add_argument_group("which dead letters")
    which.add_argument("--shard", type=int, metavar="N", help="of this shard only")
    which.add_argument("--kind", metavar="K", help="only tasks of this kind; '' is those without")
    which.add_argument(
        "--reason", choices=[reason.value for reason in Reason], help="only what died of this"
    )
    which.add_argument(
        "--exception-type", metavar="T", help="only what ended so, like builtins.ValueError"
    )
    which.add_argument("--text", metavar="T", help="only where this is part of the error")
    which.add_argument("--idempotency-key", metavar="K", help="only tasks that bear this one")
    which.add_argument("--since", type=moment, metavar="T", help="only what died then or later")
    which.add_argument("--until", type=moment, metavar="T", help="only what died then or earlier")
    which.add_argument(
        "--older-than", type=seconds, metavar="S", help="only what died so long ago or earlier"
    )


def _add_many(parser: CommandParser) -> None:
    _add_filters(parser)
    parser.add_argument("--all", action="store_true", help="needed where nothing says which ones")
    parser.add_argument(
        "--count", type=positive, metavar="N", help="this many at most, oldest first"
    )
    parser.add_argument(
        "--background", action="store_true", help="leave it to the scheduler; see bulk"
    )


# --- the actions -----------------------------------------------------------------------------


def _add_list(parser: CommandParser) -> None:
    _add_filters(parser)
    parser.add_argument("--count", type=positive, default=50, metavar="N", help="default 50")
    parser.add_argument("--after", metavar="CURSOR", help="go on where another page ended")
    parser.add_argument("--oldest-first", action="store_true")


def _add_show(parser: CommandParser) -> None:
    _add_common(parser)
    parser.add_argument("--shard", type=int, metavar="N", help="of this shard only")
    parser.add_argument("task_id", nargs="?", metavar="TASK_ID")
    parser.add_argument("--entry-id", metavar="ID", help="names a letter without a task")


def _add_replay(parser: CommandParser) -> None:
    _add_many(parser)
    parser.add_argument("task_ids", nargs="*", metavar="TASK_ID")
    parser.add_argument(
        "--entry-id", metavar="ID", help="the letter that is meant, should the task have died again"
    )
    parser.add_argument(
        "--payload", type=_document, metavar="JSON", help="take this instead; needs --entry-id"
    )
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--delay", type=seconds, metavar="S", help="run so much later; default: now")
    when.add_argument("--run-at", type=moment, metavar="T", help="like 2030-12-31T23:59:00")
    parser.add_argument(
        "--spread", type=seconds, metavar="S", help="with --background: over so long, from then on"
    )


def _add_discard(parser: CommandParser) -> None:
    _add_common(parser)
    parser.add_argument("--shard", type=int, metavar="N", help="of this shard only")
    parser.add_argument("task_ids", nargs="*", metavar="TASK_ID")
    parser.add_argument(
        "--entry-id", metavar="ID", help="the letter that is meant; a tombstone's name"
    )


def _add_bulk(parser: CommandParser) -> None:
    doings = parser.add_subparsers(dest="doing", metavar="DOING", required=True)
    _add_common(doings.add_parser("list", help="those that go on, and the last that are over"))
    show = doings.add_parser("show", help="one of them")
    stop = doings.add_parser("stop", help="end it; what was done stays so")
    for one in (show, stop):
        _add_common(one)
        one.add_argument("bulk_id", metavar="ID")
    show.add_argument("--watch", action="store_true", help="until it is over")


ACTIONS: dict[str, tuple[str, Callable[[CommandParser], None]]] = {
    "list": ("shows a page of dead letters", _add_list),
    "groups": ("counts them by kind and exception type", _add_common),
    "show": ("shows one of them, whole", _add_show),
    "replay": ("puts tasks back to work", _add_replay),
    "discard": ("removes letters for good, their payloads included", _add_discard),
    "purge": ("removes many for good, their payloads included", _add_many),
    "bulk": ("shows and stops what goes on in the background", _add_bulk),
}
