"""``manage.py redq_dlq``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redq.dead_letters import DeadLetterQueue, ReplayResult
from django_redq.errors import DeadLetterNotFound, NotReplayable
from django_redq.management.command import OperatorCommand, moment, positive, seconds
from django_redq.management.letters import line_of, lines_of, name_of
from django_redq.management.output import Progress, as_json
from django_redq.management.serving import exit_at_once
from django_redq.outcome import Reason
from django_redq.service import os_signals

HELP = """\
Looks after the dead letters of a queue: tasks that get no further run, kept with their payload and
what went wrong until somebody replays or discards them.

  manage.py redq_dlq list email                          newest first
  manage.py redq_dlq list email --reason exhausted --older-than 1d --count 20
  manage.py redq_dlq show email TASK_ID                  payload, error, traceback
  manage.py redq_dlq replay email TASK_ID [TASK_ID ...]  back to work, with all its attempts
  manage.py redq_dlq replay email --all --delay 5m       whatever is dead now
  manage.py redq_dlq replay email --kind welcome --count 100
  manage.py redq_dlq discard email TASK_ID               gone for good, payload included
  manage.py redq_dlq purge email --older-than 30d        the same for many
  manage.py redq_dlq purge email --all

A tombstone (reason missing_payload) has nothing left to replay; it is discarded by its entry:
  manage.py redq_dlq discard email --entry-id 1700000000000-0 --shard 3

A duration is in seconds, or with a unit: 30m, 12h, 7d. All print JSON with --json. Exit code 1 where
a letter that was named is not there or could not be replayed.
"""


class Command(OperatorCommand):
    help = HELP

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        for name, (about, add) in ACTIONS.items():
            add(actions.add_parser(name, help=about, description=f"{about.capitalize()}."))

    def handle(self, **options: Any) -> None:
        letters = DeadLetterQueue(options["queue"])
        actions: dict[str, Callable[[DeadLetterQueue, dict[str, Any]], None]] = {
            "list": self._list,
            "show": self._show,
            "replay": self._replay,
            "discard": self._discard,
            "purge": self._purge,
        }
        actions[options["action"]](letters, options)

    def _list(self, letters: DeadLetterQueue, options: dict[str, Any]) -> None:
        page = letters.list(
            newest_first=not options["oldest_first"],
            after=options["after"],
            count=options["count"],
            **_which(options),
        )
        if options["json"]:
            self.stdout.write(as_json(page))
            return
        for letter in page:
            self.stdout.write(line_of(letter))
        if page.cursor is not None:
            self.stderr.write(f"more: --after {page.cursor}")

    def _show(self, letters: DeadLetterQueue, options: dict[str, Any]) -> None:
        letter = letters.get(
            options["task_id"] or "", entry_id=options["entry_id"], shard=options["shard"]
        )
        self.stdout.write(as_json(letter) if options["json"] else "\n".join(lines_of(letter)))

    def _replay(self, letters: DeadLetterQueue, options: dict[str, Any]) -> None:
        if options["task_ids"]:
            self._replay_named(letters, options)
        else:
            self._replay_many(letters, options)

    def _replay_named(self, letters: DeadLetterQueue, options: dict[str, Any]) -> None:
        _refuse_filters(options)
        when = {"run_at": options["run_at"], "delay": options["delay"]}
        results = []
        for task_id in options["task_ids"]:
            try:
                results.append(letters.replay(task_id, entry_id=options["entry_id"], **when))
            except (DeadLetterNotFound, NotReplayable) as error:
                self.stderr.write(str(error))
        self._say_replayed(results, options)
        _complain(len(options["task_ids"]) - len(results), "not replayed")

    def _replay_many(self, letters: DeadLetterQueue, options: dict[str, Any]) -> None:
        _want_all_or_filters(options)
        replayed = failed = 0
        with self._long_work("dealt with") as progress:
            results = letters.replay_each(
                count=options["count"],
                run_at=options["run_at"],
                delay=options["delay"],
                progress=progress,
                **_which(options),
            )
            for result in results:
                replayed += result.replayed
                failed += not result.replayed
                if not result.replayed:
                    self.stderr.write(f"{name_of(result)} not replayed: {result.why_not}")
        if options["json"]:
            self.stdout.write(as_json({"replayed": replayed, "not_replayed": failed}))
        else:
            rest = f", {failed} not" if failed else ""
            self.stdout.write(f"{replayed} replayed{rest}")

    def _say_replayed(self, results: list[ReplayResult], options: dict[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(as_json(results))
            return
        for result in results:
            at = result.run_at.isoformat(sep=" ", timespec="seconds") if result.run_at else ""
            self.stdout.write(f"{result.task_id} replayed, due {at}")

    def _discard(self, letters: DeadLetterQueue, options: dict[str, Any]) -> None:
        if not options["task_ids"] and options["entry_id"] is None:
            raise CommandError("name a TASK_ID, or an --entry-id")
        discarded = []
        for task_id in options["task_ids"] or [""]:
            name = task_id or options["entry_id"]
            if letters.discard(task_id, entry_id=options["entry_id"], shard=options["shard"]):
                discarded.append(name)
            else:
                hint = "" if options["entry_id"] else "; a tombstone is named by its --entry-id"
                self.stderr.write(f"{letters.queue!r} holds no dead letter {name!r}{hint}")
        if options["json"]:
            self.stdout.write(as_json({"discarded": discarded}))
        for name in () if options["json"] else discarded:
            self.stdout.write(f"{name} discarded")
        _complain(len(options["task_ids"] or [""]) - len(discarded), "not discarded")

    def _purge(self, letters: DeadLetterQueue, options: dict[str, Any]) -> None:
        _want_all_or_filters(options)
        with self._long_work("removed") as progress:
            removed = letters.purge(count=options["count"], progress=progress, **_which(options))
        self.stdout.write(
            as_json({"removed": removed}) if options["json"] else f"{removed} removed"
        )

    @contextmanager
    def _long_work(self, what: str) -> Iterator[Callable[[int], None]]:
        """Shows how far it is; SIGINT and SIGTERM end it after the step it is in."""
        signals: SimpleQueue[str] = SimpleQueue()
        shown = Progress(self.stderr, what)

        def progress(done: int) -> None:
            shown(done)
            if not signals.empty():
                shown.close()
                raise CommandError(f"stopped by {signals.get()}: {done} {what}, the rest stays")

        with os_signals(signals.put, exit_at_once):
            yield progress
        shown.close()


# --- arguments -------------------------------------------------------------------------------


def _add_common(parser: CommandParser) -> None:
    parser.add_argument("queue", metavar="QUEUE")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--shard", type=int, metavar="N", help="of this shard only")


def _add_filters(parser: CommandParser) -> None:
    _add_common(parser)
    parser.add_argument("--kind", metavar="K", help="only tasks of this kind; '' is those without")
    parser.add_argument(
        "--reason", choices=[reason.value for reason in Reason], help="only what died of this"
    )
    parser.add_argument(
        "--older-than", type=seconds, metavar="S", help="only what died so long ago or earlier"
    )


def _add_list(parser: CommandParser) -> None:
    _add_filters(parser)
    parser.add_argument("--count", type=positive, default=50, metavar="N", help="default 50")
    parser.add_argument("--after", metavar="CURSOR", help="go on where another page ended")
    parser.add_argument("--oldest-first", action="store_true")


def _add_show(parser: CommandParser) -> None:
    _add_common(parser)
    parser.add_argument("task_id", nargs="?", metavar="TASK_ID")
    parser.add_argument("--entry-id", metavar="ID", help="names a letter without a task")


def _add_replay(parser: CommandParser) -> None:
    _add_purge(parser)
    parser.add_argument("task_ids", nargs="*", metavar="TASK_ID")
    parser.add_argument(
        "--entry-id", metavar="ID", help="the letter that is meant, should the task have died again"
    )
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--delay", type=seconds, metavar="S", help="run so much later; default: now")
    when.add_argument("--run-at", type=moment, metavar="T", help="like 2030-12-31T23:59:00")


def _add_discard(parser: CommandParser) -> None:
    _add_common(parser)
    parser.add_argument("task_ids", nargs="*", metavar="TASK_ID")
    parser.add_argument(
        "--entry-id", metavar="ID", help="the letter that is meant; a tombstone's name"
    )


def _add_purge(parser: CommandParser) -> None:
    _add_filters(parser)
    parser.add_argument("--all", action="store_true", help="needed where nothing says which ones")
    parser.add_argument(
        "--count", type=positive, metavar="N", help="this many at most, oldest first"
    )


def _which(options: dict[str, Any]) -> Any:
    return {name: options[name] for name in ("shard", "kind", "reason", "older_than")}


def _want_all_or_filters(options: dict[str, Any]) -> None:
    given = [*_which(options).values(), options["count"], options["all"] or None]
    if all(value is None for value in given):
        raise CommandError("say which dead letters: --all, or --kind, --reason, --older-than ...")


def _refuse_filters(options: dict[str, Any]) -> None:
    if (
        options["all"]
        or options["count"] is not None
        or any(value is not None for value in _which(options).values())
    ):
        raise CommandError(
            "name TASK_IDs, or say which dead letters by --all and the like; not both"
        )


def _complain(number: int, what: str) -> None:
    if number:
        raise CommandError(f"{number} dead letter(s) {what}")


ACTIONS: dict[str, tuple[str, Callable[[CommandParser], None]]] = {
    "list": ("shows a page of dead letters", _add_list),
    "show": ("shows one of them, whole", _add_show),
    "replay": ("puts tasks back to work", _add_replay),
    "discard": ("removes letters for good, their payloads included", _add_discard),
    "purge": ("removes many for good, their payloads included", _add_purge),
}
