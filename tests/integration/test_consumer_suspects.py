"""The last run of a task that has lost a worker: alone in its process, and all the others safe."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from django_redq.broker.keys import SUSPECTS_CONSUMER
from django_redq.consumer import fetcher
from django_redq.handlers import handler
from django_redq.outcome import Reason
from django_redq.producer import cancel
from django_redq.queue import Queue
from django_redq.task import TaskState
from tests.harness import PATIENCE
from tests.worker.handlers import EXIT_CODE

pytestmark = pytest.mark.every_setup


class Watched:
    """A handler that notes who runs beside whom."""

    def __init__(self):
        self._lock = threading.Lock()
        self.running = set()
        self.beside = {}
        self.gates = {}
        self.inside = threading.Semaphore(0)

        @handler("default")
        def work(task):
            with self._lock:
                self.running.add(task.id)
                self.beside[task.id] = set()
                for one in self.running:
                    self.beside[one] |= self.running - {one}
            self.inside.release()
            if task.id in self.gates:
                assert self.gates[task.id].wait(PATIENCE)
            with self._lock:
                self.running.remove(task.id)

    def hold(self, task_id):
        """Has it run until the event is set."""
        self.gates[task_id] = threading.Event()
        return self.gates[task_id]

    def wait_inside(self):
        assert self.inside.acquire(timeout=PATIENCE)


@pytest.fixture
def watched(engine):
    made = Watched()
    yield made
    for gate in made.gates.values():
        gate.set()


@contextmanager
def paused():
    """In here no consumer takes anything."""
    Queue("default").pause()
    yield
    Queue("default").resume()


def abandon_suspect(engine, task_id="suspect"):
    """A task of three attempts that has lost a worker in the second."""
    with paused():
        engine.enqueue(task_id=task_id, max_attempts=3)
        engine.abandon(count=2)
    return task_id


def make_ready_suspect(engine, task_id="suspect"):
    """The same, READY again: it was handed back."""
    with paused():
        engine.enqueue(task_id=task_id, max_attempts=3)
        engine.client.hset(engine.key("state"), task_id, b"2 1 3 - ")
    return task_id


def rounds_of(consumer):
    """A semaphore that is released at each round of the consumer's own loop."""
    done, original = threading.Semaphore(0), consumer._engine.turn

    def turn():
        result = original()
        done.release()
        return result

    consumer._engine.turn = turn
    return done


def wait_rounds(consumer, count=4):
    rounds = rounds_of(consumer)
    for _ in range(count):
        consumer._engine.heard("", "")
        assert rounds.acquire(timeout=PATIENCE)


def test_a_suspect_is_parked_and_shown_as_ready(engine, watched):
    task_id = abandon_suspect(engine)
    assert engine.consumer().recover_once() == 1
    (row,) = engine.pending()
    assert (row["consumer"], row["count"]) == (SUSPECTS_CONSUMER, 2)
    info = engine.task(task_id)
    assert (info.state, info.attempts, info.worker_lost) == (TaskState.READY, 2, True)
    assert info.consumer is None
    assert watched.beside == {}


@pytest.mark.every_server
@pytest.mark.parametrize("make", [abandon_suspect, make_ready_suspect])
def test_a_suspect_is_run_by_a_process_that_holds_nothing(engine, watched, make):
    task_id = make(engine)
    consumer = engine.start("default", recovery_interval=0.05, concurrency=4)
    engine.wait_counts(consumer, Done=1)
    assert watched.beside == {task_id: set()}
    engine.assert_drained()


def test_the_last_run_of_a_suspect_is_the_last(engine):
    @handler("default")
    def fail(task):
        raise ValueError(task.attempt)

    abandon_suspect(engine)
    consumer = engine.start("default", recovery_interval=0.05)
    engine.wait_counts(consumer, Dead=1)
    letter = engine.only_dead()
    assert (letter["reason"], letter["error"]) == (Reason.EXHAUSTED, "3")


@pytest.mark.parametrize("make", [abandon_suspect, make_ready_suspect])
def test_it_waits_until_its_process_is_empty_and_nothing_is_taken_beside_it(engine, watched, make):
    first, gate = watched.hold("first"), watched.hold("suspect")
    engine.enqueue(task_id="first")
    consumer = engine.start("default", concurrency=4, recovery_interval=0.05)
    watched.wait_inside()
    suspect = make(engine)
    engine.wait_until(lambda: SUSPECTS_CONSUMER in {row["consumer"] for row in engine.pending()})
    wait_rounds(consumer)
    assert watched.running == {"first"}
    first.set()
    watched.wait_inside()
    assert watched.running == {suspect}
    engine.enqueue(task_id="later")
    wait_rounds(consumer)
    assert watched.running == {suspect}
    assert engine.task("later").state is TaskState.READY
    gate.set()
    engine.wait_counts(consumer, Done=3)
    assert watched.beside == {"first": set(), suspect: set(), "later": set()}
    engine.assert_drained()


def test_another_consumer_of_the_process_takes_nothing_beside_it_either(engine, watched):
    gate, suspect = watched.hold("suspect"), make_ready_suspect(engine)
    first = engine.start("default")
    watched.wait_inside()
    second = engine.start("default", recovery_interval=0.05)
    with paused():
        engine.enqueue(task_id="lost", max_attempts=9)
        engine.abandon()
        engine.enqueue(task_id="new")
    wait_rounds(second)
    second._recoverer.recover()
    assert watched.running == {suspect}
    gate.set()
    engine.wait_until(lambda: len(watched.beside) == 3)
    engine.wait_until(lambda: first.counts.get("Done", 0) + second.counts.get("Done", 0) == 3)
    assert watched.beside[suspect] == set()


def test_a_suspect_is_not_taken_while_another_consumer_of_the_process_holds_something(
    engine, watched
):
    gate = watched.hold("first")
    engine.enqueue(task_id="first")
    first = engine.start("default")
    watched.wait_inside()
    make_ready_suspect(engine)
    second = engine.start("default")
    wait_rounds(second)
    assert watched.running == {"first"}
    gate.set()
    engine.wait_until(lambda: first.counts.get("Done", 0) + second.counts.get("Done", 0) == 2)
    assert watched.beside["suspect"] == set()


def test_a_consumer_that_is_never_empty_empties_itself_for_one_that_has_waited(
    engine, watched, monkeypatch
):
    monkeypatch.setattr(fetcher, "PATIENCE", 0.0)
    monkeypatch.setattr(fetcher, "TURN_INTERVAL", 0.01)
    suspect = make_ready_suspect(engine)
    stop, fed = threading.Event(), []

    def feed():
        # There is always more to do, until the suspect has had its turn.
        while not stop.is_set():
            if len(watched.running) < 3:
                fed.append(engine.enqueue())

    feeder = threading.Thread(target=feed)
    blocker = watched.hold("blocker")
    engine.enqueue(task_id="blocker")
    consumer = engine.start("default", concurrency=2)
    watched.wait_inside()
    feeder.start()
    blocker.set()
    engine.wait_until(lambda: suspect in watched.beside)
    stop.set()
    feeder.join()
    engine.wait_counts(consumer, Done=len(fed) + 2)
    assert watched.beside[suspect] == set()
    assert engine.client.hget(engine.key("meta"), "turn") is None
    engine.assert_drained()


def test_many_suspects_run_one_after_the_other(engine, watched):
    ids = {f"suspect-{n}" for n in range(6)}
    for task_id in ids:
        engine.enqueue(task_id=task_id, max_attempts=3)
    engine.abandon(count=2)
    both = [engine.start("default", concurrency=4, recovery_interval=0.05) for _ in range(2)]
    engine.wait_until(lambda: sum(one.counts.get("Done", 0) for one in both) == 6)
    assert watched.beside == {task_id: set() for task_id in ids}
    engine.assert_drained()


def test_a_suspect_of_a_paused_queue_stays_parked(engine, watched):
    abandon_suspect(engine)
    engine.consumer().recover_once()
    Queue("default").pause()
    consumer = engine.start("default")
    wait_rounds(consumer)
    assert watched.running == set()
    Queue("default").resume()
    engine.wait_counts(consumer, Done=1)


def test_a_parked_suspect_may_be_cancelled(engine, watched):
    task_id = abandon_suspect(engine)
    engine.consumer().recover_once()
    assert cancel("default", task_id).canceled
    engine.assert_drained()
    assert engine.consumer().run_once() == 0


def test_a_suspect_that_is_lost_again_is_dead(engine, watched):
    task_id = abandon_suspect(engine)
    engine.consumer().recover_once()
    engine.age()
    # Whoever had claimed it died, too.
    (row,) = engine.pending()
    engine.client.xclaim(
        engine.key("stream"), "default", "ghost-1", 0, [row["entry"]], retrycount=3, justid=True
    )
    engine.age()
    assert engine.consumer().recover_once() == 1
    letter = engine.only_dead()
    assert (letter["id"], letter["reason"]) == (task_id, Reason.WORKER_LOST)


def test_a_poisonous_task_dies_alone_and_its_neighbours_are_done(engine, ledger):
    """Each process that runs the poison dies of it, and all that runs there with it."""
    engine.configure(
        MAX_ATTEMPTS=3,
        CONCURRENCY=4,
        PENDING_MIN_IDLE=0.4,
        RECOVERY_INTERVAL=0.1,
        BLOCK_TIMEOUT=0.2,
    )
    ids = {engine.enqueue(kind="neighbour") for _ in range(3)}
    poison = engine.enqueue(3, kind="poison")
    deaths = 0
    while ledger.done() != ids or not engine.dead():
        worker = engine.spawn(ledger, "redq_consume", "default")
        engine.wait_until(
            lambda worker=worker: (
                worker.popen.poll() is not None or (ledger.done() == ids and engine.dead())
            )
        )
        if worker.popen.poll() is None:
            assert worker.terminate() == 0
        else:
            assert worker.wait() == EXIT_CODE
            deaths += 1
    assert deaths == 3
    letter = engine.only_dead()
    assert (letter["id"], letter["reason"], letter["attempts"]) == (
        poison,
        Reason.WORKER_LOST,
        "3",
    )
    assert [note.attempt for note in ledger.of("begun", task_id=poison)] == [1, 2, 3]
    (last,) = ledger.of("begun", task_id=poison, attempt=3)
    assert {note.attempt for note in ledger.of("done")} == {3}
    assert len(ledger.of("done")) == 3
    assert ledger.of("begun", kind="neighbour", pid=last.pid, attempt=2) == []
    assert set(engine.leftovers()) == {
        "{default:0}:dlq",
        "{default:0}:entry",
        "{default:0}:groups",
        "{default:0}:payload",
        "{default:0}:state",
    }
