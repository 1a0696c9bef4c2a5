"""Carries commands to the nodes of a Cluster, to each its own, so that one that is away delays no other.

redis-py's pipeline over a Cluster fails as a whole, and sends again what may have been done. From it
come the map of the slots and the connections; what goes over them is decided here.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import redis

from django_redq.broker import faults
from django_redq.broker.absence import Absences
from django_redq.broker.wire import Command

MAX_REDIRECTIONS = 5
"""Times that a command follows a slot to another node."""
FAILED_START = 0.5
"""Seconds that the error of a start that failed is given to others, who would each wait for their own."""
_NOBODY = "of a slot that none serves"


class _Leg:
    """One node's part of a round trip."""

    def __init__(self, node: Any) -> None:
        self.node = node
        self.commands: list[tuple[int, Command, bool]] = []
        """Place in the batch, command, whether the slot is only on its way to this node."""
        self.replies: dict[int, Any] = {}
        self.error: Exception | None = None
        self._connection: Any = None
        self._unread = False

    def send(self) -> None:
        """Sends all, and keeps what went wrong."""
        packed: list[Command] = []
        for _, command, asking in self.commands:
            packed += [("ASKING",), command] if asking else [command]
        try:
            self._connection = self.node.redis_connection.connection_pool.get_connection()
            self._unread = True
            self._connection.send_packed_command(self._connection.pack_commands(packed))
        except faults.REDIS_ERRORS as error:
            self.error = error

    def receive(self) -> None:
        """Reads all replies; what the node answered before it was lost stands."""
        try:
            for at, _, asking in self.commands:
                if self.error is not None:
                    return
                if asking:
                    self._read()
                self.replies[at] = self._read()
            self._unread = False
        except faults.REDIS_ERRORS as error:
            self.error = error

    def release(self) -> None:
        """Gives the connection back; one with replies in it would answer the next who asks."""
        if self._connection is None:
            return
        if self._unread:
            self._connection.disconnect()
        self.node.redis_connection.connection_pool.release(self._connection)

    def _read(self) -> Any:
        try:
            return self._connection.read_response()
        except redis.ResponseError as error:
            return error


class ClusterWire:
    """To the nodes of a Cluster. The client is made when it is first used, for it asks the nodes at once.

    Args:
        make_client: makes redis-py's client of the Cluster.
        make_listener: makes a client of one node, given its host and port.
    """

    # Each shard has a slot, and a script over two is refused even where one node has both.
    spans_shards = False

    def __init__(
        self,
        make_client: Callable[[], redis.Redis],
        make_listener: Callable[[str, int], redis.Redis],
    ) -> None:
        self._make_client = make_client
        self._make_listener = make_listener
        self._lock = threading.Lock()
        self._cluster: Any = None
        self._failed: tuple[float, Exception] | None = None
        self._listeners: dict[str, redis.Redis] = {}
        self._absences = Absences(self._look)

    @property
    def client(self) -> redis.Redis:
        return cast("redis.Redis", self._known_cluster())

    def _known_cluster(self) -> Any:
        if self._cluster is None:
            with self._lock:
                if self._cluster is None:
                    self._cluster = self._started()
        return self._cluster

    def _started(self) -> Any:
        if self._failed is not None and time.monotonic() - self._failed[0] < FAILED_START:
            raise redis.ConnectionError(faults.in_words(self._failed[1]))
        try:
            return self._make_client()
        except faults.REDIS_ERRORS as error:
            self._failed = (time.monotonic(), error)
            raise

    def _learn_slots(self) -> Any:
        """Asks who has which; what is known stands where that fails."""
        cluster = self._known_cluster()
        # What redis-py raises over a half-formed answer is no Redis error.
        with suppress(Exception):
            cluster.nodes_manager.initialize()
        return cluster

    def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """One round trip; :class:`faults.Away` in the place of what went to a node that is away.

        Raises:
            redis.RedisError: no node answers.
        """
        replies: list[Any] = [None] * len(commands)
        targets: dict[int, tuple[Any, bool]] = {}
        for at, command in enumerate(commands):
            try:
                targets[at] = (self._node_of(command), False)
            except redis.exceptions.SlotNotCoveredError as error:
                replies[at] = self._note(_NOBODY, command, error)
        for _ in range(MAX_REDIRECTIONS):
            self._ask(commands, targets, replies)
            targets = self._redirected(replies)
            if not targets:
                break
        for at, reply in enumerate(replies):
            if _is_of_a_moving_slot(reply):
                replies[at] = faults.Away.of("that has the slot", reply)
        self._raise_if_all_away(replies)
        return replies

    def _node_of(self, command: Command) -> Any:
        return self._known_cluster().get_node_from_key(key_of(command))

    def _ask(
        self,
        commands: Sequence[Command],
        targets: Mapping[int, tuple[Any, bool]],
        replies: list[Any],
    ) -> None:
        legs: dict[str, _Leg] = {}
        for at, (node, asking) in targets.items():
            away = self._absences.of(node.name)
            if away is not None:
                replies[at] = away
                continue
            leg = legs.setdefault(node.name, _Leg(node))
            leg.commands.append((at, commands[at], asking))
        try:
            # All are at work before the first is waited for.
            for leg in legs.values():
                leg.send()
            for leg in legs.values():
                leg.receive()
        finally:
            for leg in legs.values():
                leg.release()
        for leg in legs.values():
            self._take(leg, replies)

    def _take(self, leg: _Leg, replies: list[Any]) -> None:
        for at, command, _ in leg.commands:
            reply = leg.replies.get(at, leg.error)
            if isinstance(reply, Exception) and faults.is_of_the_node(reply):
                reply = self._note(leg.node.name, command, reply)
            replies[at] = reply

    def _note(self, node: str, command: Command, error: Exception) -> faults.Away:
        return self._absences.note(node, key_of(command), error)

    def _redirected(self, replies: Sequence[Any]) -> dict[int, tuple[Any, bool]]:
        """Whom to ask instead, where a slot has moved or is on its way; nothing was done there."""
        found = {
            at: reply
            for at, reply in enumerate(replies)
            if isinstance(reply, redis.exceptions.AskError)
        }
        if not found:
            return {}
        cluster = self._learn_slots()
        targets = {}
        for at, error in found.items():
            node = cluster.get_node(host=error.host, port=error.port)
            if node is not None and node.redis_connection is not None:
                # Moved is a kind of Ask.
                targets[at] = (node, not isinstance(error, redis.exceptions.MovedError))
        return targets

    def _raise_if_all_away(self, replies: Sequence[Any]) -> None:
        """An outage of all nodes is one of the server, as its users see it."""
        away = next((one for one in replies if isinstance(one, faults.Away)), None)
        if away is not None and self._primaries() <= self._absences.nodes:
            raise redis.ConnectionError(f"no node answers; {away}")

    def _primaries(self) -> set[str]:
        return {node.name for node in self._known_cluster().get_primaries()}

    def _look(self, away: Mapping[str, str]) -> set[str]:
        cluster = self._learn_slots()
        return {name for name, key in away.items() if self._is_served(cluster, name, key)}

    def _is_served(self, cluster: Any, name: str, key: str) -> bool:
        try:
            node = cluster.get_node_from_key(key)
            if node.name == name:
                node.redis_connection.execute_command("EXISTS", key)
        except redis.exceptions.SlotNotCoveredError:
            # It has that slot no more, whether it answers or not.
            return name != _NOBODY
        except faults.REDIS_ERRORS:
            return False
        return True

    def listening_client(self) -> redis.Redis:
        """A client of some node that answers: what one publishes all tell."""
        nodes = self._known_cluster().get_primaries()
        away = self._absences.nodes
        node = random.choice([one for one in nodes if one.name not in away] or nodes)  # noqa: S311
        with self._lock:
            if node.name not in self._listeners:
                self._listeners[node.name] = self._make_listener(node.host, node.port)
            return self._listeners[node.name]

    def watch(self, on_back: Callable[[], None]) -> Callable[[], None]:
        return self._absences.watchers.watch(on_back)

    def close(self) -> None:
        self._absences.close()
        for client in (self._cluster, *self._listeners.values()):
            if client is not None:
                client.close()


def key_of(command: Command) -> str:
    """The key that says which shard a command is about."""
    return str(command[3] if command[0] in {"EVAL", "EVALSHA"} else command[1])


def _is_of_a_moving_slot(reply: Any) -> bool:
    return isinstance(reply, (redis.exceptions.AskError, redis.exceptions.TryAgainError))
