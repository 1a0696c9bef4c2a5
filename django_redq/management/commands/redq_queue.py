"""``manage.py redq_queue``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redq.management.command import OperatorCommand, positive, queue_names
from django_redq.management.consumers import consumer_rows, tasks_of
from django_redq.management.output import as_json, one_line, table
from django_redq.queue import Queue
from django_redq.queue_tasks import TaskRow
from django_redq.task import TaskState

HELP = """\
Looks after queues: what waits in them, who works on them.

  manage.py redq_queue pause webhook           the partner is down: let no task fail
  manage.py redq_queue resume webhook          go on
  manage.py redq_queue pause email webhook     several at once
  manage.py redq_queue list email --state scheduled      the soonest first; or ready, or running
  manage.py redq_queue run-now email TASK_ID             do not wait until it is due
  manage.py redq_queue cancel email TASK_ID [TASK_ID ...]   scheduled or ready ones, for good
  manage.py redq_queue consumers email                   where they run, and what

From a paused queue consumers take nothing more, wherever they run: what runs goes on to its end, what
waits is kept, what comes in is accepted, and what is due becomes ready. That lasts until somebody
resumes the queue, restarts of Redis and of consumers included; redq_stats shows which are paused.

Dead letters have a command of their own, redq_dlq. Exit code 1 where a task that was named is not there,
or is in another state.
"""
STATES = [state.value for state in TaskState if state is not TaskState.DEAD]


class Command(OperatorCommand):
    help = HELP

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        for name, (about, add) in ACTIONS.items():
            add(actions.add_parser(name, help=about, description=f"{about.capitalize()}."))

    def handle(self, **options: Any) -> None:
        actions: dict[str, Callable[[dict[str, Any]], None]] = {
            "pause": self._set_paused,
            "resume": self._set_paused,
            "list": self._list,
            "run-now": self._run_now,
            "cancel": self._cancel,
            "consumers": self._consumers,
        }
        actions[options["action"]](options)

    def _set_paused(self, options: dict[str, Any]) -> None:
        # All names are looked at before the first queue is touched.
        for name in queue_names(options["queues"]):
            queue = Queue(name)
            if options["action"] == "pause":
                self._say(name, "paused", "was paused already", changed=queue.pause())
            else:
                self._say(name, "resumed", "was not paused", changed=queue.resume())

    def _say(self, name: str, done: str, nothing: str, *, changed: bool) -> None:
        self.stdout.write(f"{name}: {done if changed else nothing}")

    def _list(self, options: dict[str, Any]) -> None:
        page = Queue(options["queue"]).tasks(
            options["state"], after=options["after"], count=options["count"]
        )
        if options["json"]:
            self.stdout.write(as_json(page))
            return
        for task in page:
            self.stdout.write(_line_of(task))
        if page.cursor is not None:
            self.stderr.write(f"more: --after {page.cursor}")

    def _run_now(self, options: dict[str, Any]) -> None:
        self._each(options, Queue(options["queue"]).run_now, "is ready now", "is not scheduled")

    def _cancel(self, options: dict[str, Any]) -> None:
        nothing = "is neither scheduled nor ready"
        self._each(options, Queue(options["queue"]).cancel, "cancelled", nothing)

    def _each(
        self, options: dict[str, Any], act: Callable[[str], bool], done: str, nothing: str
    ) -> None:
        missed = 0
        for task_id in options["task_ids"]:
            if act(task_id):
                self.stdout.write(f"{task_id} {done}")
            else:
                missed += 1
                self.stderr.write(f"{task_id} {nothing}")
        if missed:
            raise CommandError(f"{missed} of {len(options['task_ids'])} task(s) left as they were")

    def _consumers(self, options: dict[str, Any]) -> None:
        consumers = Queue(options["queue"]).stats().consumers
        if options["json"]:
            self.stdout.write(as_json(consumers))
            return
        head = ("consumer", "running", "host", "pid", "version", "heard of")
        for line in [*table(head, consumer_rows(consumers)), *tasks_of(consumers)]:
            self.stdout.write(line)


def _line_of(task: TaskRow) -> str:
    """The task on one line: the time that its state is about, its ID, and the rest."""
    moment = task.due_at or task.ready_since or task.enqueued_at
    facts = [
        f"kind {task.kind}" if task.kind else "",
        f"attempts {task.attempts}" if task.attempts else "",
        f"run by {task.consumer}" if task.consumer else "",
    ]
    when = "-" if moment is None else moment.isoformat(sep=" ", timespec="seconds")
    return "  ".join(
        filter(
            None,
            [when, one_line(task.task_id or "-", 256), one_line(", ".join(filter(None, facts)))],
        )
    )


# --- arguments -------------------------------------------------------------------------------


def _add_queues(parser: CommandParser) -> None:
    parser.add_argument("queues", nargs="+", metavar="QUEUE")


def _add_json(parser: CommandParser) -> None:
    parser.add_argument("queue", metavar="QUEUE")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_list(parser: CommandParser) -> None:
    _add_json(parser)
    parser.add_argument("--state", choices=STATES, required=True)
    parser.add_argument("--count", type=positive, default=50, metavar="N", help="default 50")
    parser.add_argument("--after", metavar="CURSOR", help="go on where another page ended")


def _add_tasks(parser: CommandParser) -> None:
    parser.add_argument("queue", metavar="QUEUE")
    parser.add_argument("task_ids", nargs="+", metavar="TASK_ID")


ACTIONS: dict[str, tuple[str, Callable[[CommandParser], None]]] = {
    "pause": ("has consumers take nothing more", _add_queues),
    "resume": ("has consumers go on", _add_queues),
    "list": ("shows a page of tasks that are in some state", _add_list),
    "run-now": ("makes scheduled tasks ready, whenever they are due", _add_tasks),
    "cancel": ("takes scheduled and ready tasks out for good", _add_tasks),
    "consumers": ("shows who works on a queue", _add_json),
}
