"""Turns outcomes into changes in Redis, many a round trip, and acts on what Redis answers."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django_redq.broker import calls, faults
from django_redq.broker.calls import Call, Letter, Settled, Shard
from django_redq.broker.state import State
from django_redq.broker.sync import Broker
from django_redq.codec import decode_failures, encode_failures
from django_redq.consumer.announcer import Announcer
from django_redq.consumer.failure import appended
from django_redq.consumer.options import Options
from django_redq.consumer.table import ASIDE, Held, Place, Table
from django_redq.errors import StaleDelivery
from django_redq.lines import get_logger, one_line
from django_redq.outcome import Dead, Done, Drop, Failure, Keep, Release, RetryAt

logger = get_logger("django_redq.consumer")


@dataclass(frozen=True, slots=True)
class Part:
    """One call and the tasks it settles."""

    call: Call[Any]
    held: tuple[Held, ...]


class Settler:
    """Settles what has finished. ``counts`` tells how many tasks ended in what."""

    def __init__(
        self, broker: Broker, options: Options, table: Table, announcer: Announcer
    ) -> None:
        self._broker = broker
        self._options = options
        self._table = table
        self._announcer = announcer
        self._shards = {(shard.queue, shard.number): shard for shard in options.shards}
        self.counts: Counter[str] = Counter()
        self._told_left: deque[Place] = deque(maxlen=1000)
        self._refusing: set[Shard] = set()

    def batch(self, finished: Sequence[Held]) -> list[Part]:
        """The calls that settle these, grouped by shard and kind."""
        groups: dict[tuple[str, int, type], list[Held]] = defaultdict(list)
        for held in finished:
            one = held.delivery
            groups[one.queue, one.shard, type(held.outcome)].append(held)
        return [
            part
            for (queue, number, kind), group in groups.items()
            for part in self._parts(self._shards[queue, number], kind, group)
        ]

    def _parts(self, shard: Shard, kind: type, group: list[Held]) -> Iterator[Part]:
        if kind is Keep:
            self._left_pending(group)
        elif kind is Dead:
            for held in group:
                yield Part(self._dead_letter(shard, held), (held,))
        else:
            for start in range(0, len(group), calls.MAX_SCRIPT_TASKS):
                some = group[start : start + calls.MAX_SCRIPT_TASKS]
                yield Part(self._call(shard, kind, some), tuple(some))

    def _call(self, shard: Shard, kind: type, group: Sequence[Held]) -> Call[Any]:
        name, now = self._options.name, self._options.now_text()
        if kind is Done:
            queue = self._options.queues[shard.queue]
            return calls.ack(
                shard,
                name,
                [held.delivery for held in group],
                now,
                retention=queue.stream_retention,
                cleanup=queue.payload_cleanup,
            )
        if kind is RetryAt:
            return calls.retry(shard, name, [self._retried(held) for held in group], now)
        if kind is Release:
            return calls.release(
                shard, name, [(held.delivery, _given_back(held)) for held in group]
            )
        return calls.drop(shard, [(name, held.delivery.entry_id) for held in group])

    def _retried(self, held: Held) -> tuple[Any, int, State]:
        outcome = held.outcome
        assert isinstance(outcome, RetryAt)
        # Rounded up: a delay of half a millisecond is not none.
        delay_ms = -int(-outcome.delay * 1000 // 1)
        return held.delivery, delay_ms, failed_state(held, outcome.failure)

    def _dead_letter(self, shard: Shard, held: Held) -> Call[Any]:
        outcome = held.outcome
        assert isinstance(outcome, Dead)
        letter = letter_of(outcome, held)
        held.died_on = self._options.name
        state = failed_state(held, outcome.failure)
        return calls.dead_letter(
            shard, self._options.name, held.delivery, state, letter, self._options.now_text()
        )

    def accept(self, parts: Sequence[Part], replies: Sequence[Any]) -> int:
        """Acts on the replies; how many tasks were settled.

        Raises:
            redis.RedisError: a call could not be done for now; its tasks are kept for the next try.
        """
        settled = 0
        trouble: Exception | None = None
        for part, reply in zip(parts, replies, strict=True):
            try:
                settled += self._accept_one(part, reply)
            except Exception as error:  # noqa: BLE001 - raised when the others are dealt with
                trouble = error
        if trouble is not None:
            raise trouble
        return settled

    def _accept_one(self, part: Part, reply: Any) -> int:
        if not isinstance(reply, Exception):
            self._refusing.discard(self._shard_of(part))
            return self._answered(part, reply)
        if self._broker.is_away(reply):
            self._table.put_back(part.held)
            raise reply
        if faults.is_outage(reply):
            self._put_aside(part, reply)
        else:
            self._give_up(part, reply)
        return 0

    def _put_aside(self, part: Part, error: Exception) -> None:
        self._table.put_aside(part.held)
        shard = self._shard_of(part)
        # Of a node that is away everybody is told already.
        if isinstance(error, faults.Away) or shard in self._refusing:
            return
        self._refusing.add(shard)
        logger.warning(
            "shard %d of %r cannot be settled in, the others go on; tried every %g s: %s",
            shard.number,
            shard.queue,
            ASIDE,
            faults.in_words(error),
        )

    def _give_up(self, part: Part, error: Exception) -> None:
        one = part.held[0].delivery
        logger.error(
            "Redis refuses to settle %d task(s) of shard %d of %r, which others will run again: %s",
            len(part.held),
            one.shard,
            one.queue,
            faults.in_words(error),
        )
        self._let_go(part.held)

    def _shard_of(self, part: Part) -> Shard:
        one = part.held[0].delivery
        return self._shards[one.queue, one.shard]

    def _answered(self, part: Part, reply: Any) -> int:
        self._let_go(part.held)
        if part.call.script == "drop":
            for held in part.held:
                self._dropped(held)
            return 0
        if isinstance(reply, tuple):
            answer, part.held[0].letter_id = reply
            reply = [answer]
        settled = 0
        for held, answer in zip(part.held, reply, strict=True):
            # At the first try "before" means: by another, who took it over and is through with it.
            if answer is Settled.DONE or (answer is Settled.BEFORE and held.was_tried):
                self._settled(held)
                settled += 1
            else:
                self._stale(held)
        return settled

    def _left_pending(self, group: Sequence[Held]) -> None:
        self._let_go(group)
        for held in group:
            one, outcome = held.delivery, held.outcome
            if one.place in self._told_left:
                # It was looked at again, for its payload may have come back.
                continue
            self._told_left.append(one.place)
            why = outcome.why if isinstance(outcome, Keep) else ""
            logger.warning("%s/%s is left pending: %s", one.queue, one.task_id, why)

    def _let_go(self, group: Sequence[Held]) -> None:
        for held in group:
            self._table.remove(held)

    def _dropped(self, held: Held) -> None:
        one, outcome = held.delivery, held.outcome
        why = outcome.why if isinstance(outcome, Drop) else ""
        logger.warning(
            "entry %s of shard %d of %r was removed: %s", one.entry_id, one.shard, one.queue, why
        )

    def _stale(self, held: Held) -> None:
        self.counts["stale"] += 1
        logger.info("%s", StaleDelivery(held.delivery.queue, held.delivery.task_id))

    def _settled(self, held: Held) -> None:
        outcome = held.outcome
        self.counts[type(outcome).__name__] += 1
        if isinstance(outcome, RetryAt):
            log_failure(held, outcome.failure, f"again in {outcome.delay:.1f} s")
        elif isinstance(outcome, Dead):
            log_failure(held, outcome.failure, f"dead: {outcome.reason}")
        self._announcer.settled(held)


def log_failure(held: Held, failure: Failure, what_next: str) -> None:
    """One line for an attempt that failed."""
    one = held.delivery
    logger.log(
        logging.ERROR if isinstance(held.outcome, Dead) else logging.WARNING,
        "%s/%s attempt %d failed, %s: %s: %s",
        one.queue,
        one.task_id,
        failure.attempt,
        what_next,
        failure.exception_type,
        one_line(failure.error),
    )


def letter_of(outcome: Dead, held: Held) -> Letter:
    """The dead letter that an outcome leaves."""
    failure = outcome.failure
    return Letter(
        outcome.reason,
        held.kind,
        failure.error,
        failure.exception_type,
        failure.traceback,
        failure.attempt,
        held.key,
    )


def failed_state(held: Held, failure: Failure) -> State:
    """The state after this delivery failed."""
    one = held.delivery
    failures = appended(decode_failures(one.state.failures), failure)
    return State(
        attempts=one.attempt,
        lost=one.state.lost,
        allowed=held.task.max_attempts if held.task else one.state.allowed,
        came_from=one.entry_id.encode(),
        failures=encode_failures(failures),
    )


def _given_back(held: Held) -> State | None:
    """The new entry's first delivery is this same attempt; None where the state says so already."""
    one = held.delivery
    return replace(one.state, attempts=one.attempt - 1) if one.count > 1 else None
