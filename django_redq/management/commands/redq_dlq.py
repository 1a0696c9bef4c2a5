"""``manage.py redq_dlq``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redq.dead_letters import BulkAction, DeadLetterQueue, ReplayResult
from django_redq.errors import DeadLetterNotFound, NotReplayable
from django_redq.management import bulks
from django_redq.management.command import OperatorCommand
from django_redq.management.dlq_arguments import (
    add_actions,
    filters_of,
    refuse_filters,
    refuse_what_only_the_background_knows,
    want_all_or_filters,
)
from django_redq.management.letters import line_of, lines_of, lines_of_groups, name_of
from django_redq.management.output import Progress, as_json
from django_redq.management.serving import exit_at_once
from django_redq.service import os_signals

HELP = """\
Looks after the dead letters of a queue: tasks that get no further run, kept with their payload and
what went wrong until somebody replays or discards them.

  manage.py redq_dlq list email                          newest first
  manage.py redq_dlq list email --reason exhausted --older-than 1d --count 20
  manage.py redq_dlq list email --text timed.out --since 2030-12-31T08:00:00
  manage.py redq_dlq groups email                        by kind and exception type, with counts
  manage.py redq_dlq show email TASK_ID                  payload, error, traceback
  manage.py redq_dlq replay email TASK_ID [TASK_ID ...]  back to work, with all its attempts
  manage.py redq_dlq replay email --all --delay 5m       whatever is dead now
  manage.py redq_dlq replay email --kind welcome --count 100
  manage.py redq_dlq replay email TASK_ID --entry-id ID --payload '{"to": "ada@example.org"}'
  manage.py redq_dlq discard email TASK_ID               gone for good, payload included
  manage.py redq_dlq purge email --older-than 30d        the same for many
  manage.py redq_dlq purge email --all

What would take long can be left to the scheduler, and spread over time:
  manage.py redq_dlq replay email --all --background --spread 10m
  manage.py redq_dlq bulk list email
  manage.py redq_dlq bulk show email BULK_ID --watch
  manage.py redq_dlq bulk stop email BULK_ID

A tombstone (reason missing_payload) has nothing left to replay; it is discarded by its entry:
  manage.py redq_dlq discard email --entry-id 1700000000000-0 --shard 3

A duration is in seconds, or with a unit: 30m, 12h, 7d. All print JSON with --json. Exit code 1 where
a letter that was named is not there or could not be replayed.
"""


class Command(OperatorCommand):
    help = HELP

    def add_arguments(self, parser: CommandParser) -> None:
        add_actions(parser)

    def handle(self, **options: Any) -> None:
        letters = DeadLetterQueue(options["queue"])
        actions: dict[str, Callable[[DeadLetterQueue, dict[str, Any]], None]] = {
            "list": self._list,
            "groups": self._groups,
            "show": self._show,
            "replay": self._replay,
            "discard": self._discard,
            "purge": self._purge,
            "bulk": self._bulk,
        }
        actions[options["action"]](letters, options)

    def _list(self, letters: DeadLetterQueue, options: dict[str, Any]) -> None:
        page = letters.list(
            newest_first=not options["oldest_first"],
            after=options["after"],
            count=options["count"],
            **filters_of(options),
        )
        if options["json"]:
            self.stdout.write(as_json(page))
            return
        for letter in page:
            self.stdout.write(line_of(letter))
        if page.cursor is not None:
            self.stderr.write(f"more: --after {page.cursor}")

    def _groups(self, letters: DeadLetterQueue, options: dict[str, Any]) -> None:
        groups = letters.groups()
        self.stdout.write(
            as_json(groups) if options["json"] else "\n".join(lines_of_groups(groups))
        )

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
        refuse_filters(options)
        refuse_what_only_the_background_knows(options)
        when = {name: options[name] for name in ("run_at", "delay", "entry_id")}
        if options["payload"] is not None:
            [when["payload"]] = options["payload"]
            if len(options["task_ids"]) > 1:
                raise CommandError("--payload is for one TASK_ID")
        results = []
        for task_id in options["task_ids"]:
            try:
                results.append(letters.replay(task_id, **when))
            except (DeadLetterNotFound, NotReplayable) as error:
                self.stderr.write(str(error))
        self._say_replayed(results, options)
        _complain(len(options["task_ids"]) - len(results), "not replayed")

    def _replay_many(self, letters: DeadLetterQueue, options: dict[str, Any]) -> None:
        want_all_or_filters(options)
        if options["background"]:
            bulks.begin(letters, BulkAction.REPLAY, options, self.stdout)
            return
        if options["spread"] is not None:
            raise CommandError("--spread needs --background")
        replayed = failed = 0
        with self._long_work("dealt with") as progress:
            results = letters.replay_each(
                count=options["count"],
                run_at=options["run_at"],
                delay=options["delay"],
                progress=progress,
                **filters_of(options),
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
            self.stdout.write(f"{name_of(result)} replayed, due {at}")

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
        want_all_or_filters(options)
        if options["background"]:
            bulks.begin(letters, BulkAction.DISCARD, options, self.stdout)
            return
        with self._long_work("removed") as progress:
            removed = letters.purge(
                count=options["count"], progress=progress, **filters_of(options)
            )
        self.stdout.write(
            as_json({"removed": removed}) if options["json"] else f"{removed} removed"
        )

    def _bulk(self, letters: DeadLetterQueue, options: dict[str, Any]) -> None:
        bulks.run(letters, options, self.stdout, self.stderr)

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


def _complain(number: int, what: str) -> None:
    if number:
        raise CommandError(f"{number} dead letter(s) {what}")
