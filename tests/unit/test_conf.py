"""``REDQ``: what comes out of it, and what is said of its faults."""

from __future__ import annotations

import dataclasses
import math
import threading
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from django_redq import conf
from django_redq.errors import ConfigurationError, InvalidArgument, UnknownQueue
from django_redq.retry import Exponential, Fixed

HUGE = pytest.param(10**5000, id="huge")
"""An int whose repr raises, and that no float can hold."""


def config_of(redq: Any) -> conf.Config:
    with override_settings(REDQ=redq):
        return conf.get_config()


def faults_of(redq: Any) -> list[str]:
    with override_settings(REDQ=redq):
        return conf.find_faults()


def queue_of(**keys: Any) -> conf.QueueConfig:
    return config_of({"QUEUES": {"email": keys}}).queue("email")


def fault_of(**keys: Any) -> str:
    """The one fault of a queue with these settings, without the path to the queue."""
    (fault,) = faults_of({"QUEUES": {"email": keys}})
    path, found, rest = fault.partition("REDQ['QUEUES']['email']")
    assert (path, found) == ("", "REDQ['QUEUES']['email']")
    return rest


def linear(attempt: int, error: BaseException) -> float:
    return attempt * 2.0


def takes_no_error(attempt: int) -> float:
    return 1.0


class Stateful:
    def __call__(self, attempt: int, error: BaseException) -> timedelta:
        return timedelta(seconds=attempt)


a_policy = Stateful()


class TestDefaults:
    def test_without_a_setting_there_is_one_queue_on_the_alias_redq(self) -> None:
        with override_settings(REDQ={}):  # has what was read before forgotten
            from django.conf import settings

            del settings.REDQ
            config = conf.get_config()
        assert config.namespace == "redq"
        assert (config.connection.kind, config.connection.alias) == ("cache", "redq")
        assert config.handler_modules == ("handlers",)
        assert list(config.queues) == ["default"]
        assert config.scheduler == conf.SchedulerConfig(
            batch_size=100, tick_interval=0.2, lease_ttl=10.0, shutdown_timeout=5.0
        )

    def test_a_queue_has_the_defaults_of_the_table(self) -> None:
        assert queue_of() == conf.QueueConfig(
            name="email",
            shards=16,
            group="default",
            max_payload_bytes=262_144,
            max_attempts=3,
            retry=Exponential(1.0, 60.0, 2.0, 0.1),
            concurrency=1,
            read_count=10,
            prefetch=0,
            block_timeout=5.0,
            pending_min_idle=30.0,
            recovery_interval=10.0,
            recovery_count=100,
            recovery_concurrency=None,
            shutdown_timeout=20.0,
            payload_cleanup="on_success",
            stream_retention="delete_on_ack",
            missing_payload="move_to_dlq",
            dead_letter_max_age=None,
            dead_letter_max_count=None,
            enqueue_mode="on_commit",
        )

    def test_an_empty_dict_of_queues_means_the_default_queue(self) -> None:
        assert list(config_of({"QUEUES": {}}).queues) == ["default"]


class TestValues:
    def test_every_key_can_be_set(self) -> None:
        keys = {
            "SHARDS": 4,
            "GROUP": "workers",
            "MAX_PAYLOAD_BYTES": 1_000,
            "MAX_ATTEMPTS": 7,
            "RETRY": {"POLICY": "fixed", "INTERVAL": 60},
            "CONCURRENCY": 8,
            "READ_COUNT": 20,
            "PREFETCH": 2,
            "BLOCK_TIMEOUT": 1.5,
            "PENDING_MIN_IDLE": timedelta(minutes=2),
            "RECOVERY_INTERVAL": 3,
            "RECOVERY_COUNT": 50,
            "RECOVERY_CONCURRENCY": 2,
            "SHUTDOWN_TIMEOUT": 0,
            "PAYLOAD_CLEANUP": "never",
            "STREAM_RETENTION": "keep",
            "MISSING_PAYLOAD": "keep_pending",
            "DEAD_LETTER_MAX_AGE": timedelta(days=30),
            "DEAD_LETTER_MAX_COUNT": 1_000,
            "ENQUEUE_MODE": "immediate",
        }
        queue = queue_of(**keys)
        fields = {field.name.upper() for field in dataclasses.fields(queue)} - {"NAME"}
        assert fields == set(keys)
        for key, value in keys.items():
            expected = value.total_seconds() if isinstance(value, timedelta) else value
            if key != "RETRY":
                assert getattr(queue, key.lower()) == expected
        assert queue.retry == Fixed(60.0)

    @pytest.mark.parametrize("value", [5, 5.0, timedelta(seconds=5)])
    def test_a_duration_is_float_seconds_however_it_was_written(self, value: Any) -> None:
        found = queue_of(BLOCK_TIMEOUT=value).block_timeout
        assert (found, type(found)) == (5.0, float)

    def test_the_objects_are_frozen(self) -> None:
        config = config_of({})
        with pytest.raises(dataclasses.FrozenInstanceError):
            config.namespace = "other"  # type: ignore[misc]
        with pytest.raises(dataclasses.FrozenInstanceError):
            config.queue("default").shards = 2  # type: ignore[misc]
        with pytest.raises(TypeError):
            config.queues["new"] = config.queue("default")  # type: ignore[index]

    def test_an_unknown_queue_is_told_with_the_known_ones(self) -> None:
        config = config_of({"QUEUES": {"email": {}, "webhook": {}}})
        for unknown in ("mail", None, ["email"]):
            with pytest.raises(UnknownQueue, match="known: email, webhook"):
                config.queue(unknown)  # type: ignore[arg-type]


class TestRetry:
    @pytest.mark.parametrize(
        ("given", "policy"),
        [
            ({"POLICY": "fixed", "INTERVAL": timedelta(minutes=1)}, Fixed(60.0)),
            ({"POLICY": "exponential"}, Exponential(1.0, 60.0, 2.0, 0.1)),
            ({"MAX": 300}, Exponential(1.0, 300.0, 2.0, 0.1)),
            (
                {
                    "POLICY": "exponential",
                    "INITIAL": 0.5,
                    "MAX": 8,
                    "MULTIPLIER": 3,
                    "JITTER": 0,
                },
                Exponential(0.5, 8.0, 3.0, 0.0),
            ),
            (f"{__name__}.linear", linear),
            (f"{__name__}.a_policy", a_policy),
            (linear, linear),
        ],
    )
    def test_forms(self, given: Any, policy: Any) -> None:
        assert queue_of(RETRY=given).retry == policy

    @pytest.mark.parametrize(
        ("given", "fault"),
        [
            ({"POLICY": "fixed"}, "['RETRY']['INTERVAL']: is missing"),
            (
                {"POLICY": "fixd", "INTERVAL": 1},
                "['RETRY']['POLICY']: must be 'exponential' or 'fixed', got 'fixd'; did you mean 'fixed'?",
            ),
            (
                {"INTERVAL": 60},
                "['RETRY']: 'INTERVAL' does not belong here but into {'POLICY': 'fixed', ...}",
            ),
            (
                {"INITIAL": 100},
                "['RETRY']['MAX']: must not be less than INITIAL (100 s), got 60 s",
            ),
            ({"JITTER": 1.5}, "['RETRY']['JITTER']: must be a number from 0 to 1, got 1.5"),
            ({"JITTER": True}, "['RETRY']['JITTER']: must be a number from 0 to 1, got True"),
            ("no.such.thing", "['RETRY']: 'no.such.thing' cannot be imported"),
            (f"{__name__}.absent", f"['RETRY']: '{__name__}.absent' cannot be imported"),
            ("word", "['RETRY']: 'word' cannot be imported"),
            (f"{__name__}.Stateful", "['RETRY']: must be a policy dict or a callable of"),
            (f"{__name__}.takes_no_error", "['RETRY']: <function takes_no_error"),
            (60, "['RETRY']: must be a policy dict or a callable of (attempt, error), got 60"),
            (None, "['RETRY']: must be a policy dict or a callable of (attempt, error), got None"),
        ],
    )
    def test_faults(self, given: Any, fault: str) -> None:
        assert fault_of(RETRY=given).startswith(fault)


class TestFaults:
    def test_all_are_told_at_once_each_with_its_key(self) -> None:
        redq = {
            "NAMESPAC": "x",
            "NAMESPACE": "a b",
            "CONNECTION": {"CACH": "redq"},
            "HANDLER_MODULES": "handlers",
            "SCHEDULER": {"LEASE_TTL": True, "TICK": 1},
            "QUEUES": {"email": {"SHARDS": 0, "SHARD": 4}, "web hook": {}},
        }
        assert faults_of(redq) == [
            "REDQ: unknown key 'NAMESPAC'; did you mean 'NAMESPACE'?",
            (
                "REDQ['CONNECTION']: needs one of CACHE, URL, SENTINELS and CLUSTER; it has none "
                "(unknown key 'CACH'; did you mean 'CACHE'?)"
            ),
            (
                "REDQ['NAMESPACE']: must be a letter or digit, then up to 127 letters, digits, "
                "'_', '.' or '-', got 'a b'"
            ),
            (
                "REDQ['HANDLER_MODULES']: must be a list of module names such as ['handlers'], "
                "got 'handlers'"
            ),
            "REDQ['SCHEDULER']: unknown key 'TICK'; did you mean 'TICK_INTERVAL'?",
            (
                "REDQ['SCHEDULER']['LEASE_TTL']: must be seconds (int or float) or a timedelta, "
                "from 0.05 to 3,600 s, got True"
            ),
            "REDQ['QUEUES']['email']: unknown key 'SHARD'; did you mean 'SHARDS'?",
            "REDQ['QUEUES']['email']['SHARDS']: must be a whole number from 1 to 1,024, got 0",
            (
                "REDQ['QUEUES']: 'web hook' is no name for a queue: a letter or digit, then up to "
                "127 letters, digits, '_', '.' or '-'"
            ),
        ]

    def test_the_error_holds_them_all_and_is_djangos(self) -> None:
        with pytest.raises(ImproperlyConfigured) as caught:
            config_of({"NAMESPACE": "", "QUEUES": 3})
        assert isinstance(caught.value, ConfigurationError)
        assert len(caught.value.faults) == 2
        assert str(caught.value) == "\n".join(caught.value.faults)

    @pytest.mark.parametrize("redq", [None, [], "redis://", 3])
    def test_a_setting_that_is_no_dict(self, redq: Any) -> None:
        (fault,) = faults_of(redq)
        assert fault.startswith("REDQ: must be a dict, got ")

    @pytest.mark.parametrize("key", ["SHARDS", "MAX_ATTEMPTS", "CONCURRENCY", "READ_COUNT"])
    @pytest.mark.parametrize("value", [0, -1, 1.0, True, "4", None, math.nan, HUGE, 10**12])
    def test_counts(self, key: str, value: Any) -> None:
        assert fault_of(**{key: value}).startswith(f"['{key}']: must be a whole number from 1 to")

    @pytest.mark.parametrize(
        "value",
        [0, -1, True, "5", None, math.nan, math.inf, -math.inf, HUGE, timedelta(seconds=-1)],
    )
    def test_durations(self, value: Any) -> None:
        assert fault_of(BLOCK_TIMEOUT=value).startswith("['BLOCK_TIMEOUT']: must be seconds")

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("SHARDS", 1_025),
            ("GROUP", "a{b}"),
            ("GROUP", ""),
            ("GROUP", None),
            ("PREFETCH", "auto"),
            ("PREFETCH", -1),
            ("MAX_PAYLOAD_BYTES", 2**30),
            ("RECOVERY_CONCURRENCY", 0),
            ("DEAD_LETTER_MAX_AGE", 0),
            ("DEAD_LETTER_MAX_COUNT", 0),
            ("PENDING_MIN_IDLE", 0),
            ("PENDING_MIN_IDLE", 10**10),
            ("PAYLOAD_CLEANUP", "always"),
            ("STREAM_RETENTION", None),
            ("MISSING_PAYLOAD", ["move_to_dlq"]),
            ("ENQUEUE_MODE", "ON_COMMIT"),
        ],
    )
    def test_ranges_and_choices(self, key: str, value: Any) -> None:
        assert fault_of(**{key: value}).startswith(f"['{key}']: must be ")

    def test_outbox_is_no_mode_yet(self) -> None:
        assert fault_of(ENQUEUE_MODE="outbox") == (
            "['ENQUEUE_MODE']: must be 'on_commit' or 'immediate', got 'outbox'"
        )

    @pytest.mark.parametrize(
        ("redq", "fault"),
        [
            ({"ENQUEUE_MODE": "immediate"}, "a queue's own dict, REDQ['QUEUES'][<queue>]"),
            ({"BATCH_SIZE": 3}, "REDQ['SCHEDULER']"),
            ({"SHUTDOWN_TIMEOUT": 3}, "REDQ['SCHEDULER'] or REDQ['QUEUES'][<queue>]"),
            ({"SCHEDULER": {"SHARDS": 3}}, "a queue's own dict, REDQ['QUEUES'][<queue>]"),
            ({"SCHEDULER": {"NAMESPACE": "x"}}, "REDQ itself"),
            ({"QUEUES": {"email": {"NAMESPACE": "x"}}}, "REDQ itself"),
            ({"QUEUES": {"email": {"LEASE_TTL": 3}}}, "REDQ['SCHEDULER']"),
        ],
    )
    def test_a_key_in_the_wrong_place_is_told_where_it_belongs(self, redq: Any, fault: str) -> None:
        (told,) = faults_of(redq)
        assert told.endswith(f"does not belong here but into {fault}")

    def test_a_mistyped_key_in_the_wrong_place_is_told_both(self) -> None:
        (told,) = faults_of({"concurency": 4})
        assert told == (
            "REDQ: unknown key 'concurency'; did you mean 'CONCURRENCY', which belongs into a "
            "queue's own dict, REDQ['QUEUES'][<queue>]?"
        )

    def test_a_key_like_no_other_is_told_the_known_ones(self) -> None:
        (told,) = faults_of({"xyzzy": 4})
        assert told == (
            "REDQ: unknown key 'xyzzy'; known: CONNECTION, HANDLER_MODULES, NAMESPACE, QUEUES, "
            "SCHEDULER"
        )

    @pytest.mark.parametrize("name", ["", "-a", "a" * 129, "é", "a:b", "a\n", 3, None, ("a",)])
    def test_names_of_queues(self, name: Any) -> None:
        (told,) = faults_of({"QUEUES": {name: {}}})
        assert "is no name for a queue" in told

    @pytest.mark.parametrize("modules", ["handlers", ["a b"], ["handlers.py", ""], [3], {"a": 1}])
    def test_handler_modules(self, modules: Any) -> None:
        (told,) = faults_of({"HANDLER_MODULES": modules})
        assert told.startswith("REDQ['HANDLER_MODULES']: must be a list of module names")

    def test_a_value_whose_repr_fails_is_still_told(self) -> None:
        class Hostile:
            def __repr__(self) -> str:
                raise RuntimeError

        assert fault_of(SHARDS=Hostile()).endswith("got a Hostile")


class TestOverrides:
    def test_what_is_given_replaces_what_the_settings_say(self) -> None:
        queue = queue_of(CONCURRENCY=2)
        changed = conf.override_queue(
            queue, concurrency=4, group=None, shutdown_timeout=timedelta(seconds=3)
        )
        assert changed == dataclasses.replace(queue, concurrency=4, shutdown_timeout=3.0)

    def test_the_schedulers(self) -> None:
        changed = conf.override_scheduler(config_of({}).scheduler, batch_size=7, lease_ttl=None)
        assert changed == dataclasses.replace(config_of({}).scheduler, batch_size=7)

    def test_the_same_rules_hold_and_all_faults_are_told(self) -> None:
        with pytest.raises(ConfigurationError) as caught:
            conf.override_queue(queue_of(), concurrency=0, group="a b", shard=3, name="other")
        assert [fault.split(",")[0] for fault in caught.value.faults] == [
            "concurrency: must be a whole number from 1 to 10",
            "group: must be a letter or digit",
            "shard: unknown key 'shard'; did you mean 'shards'?",
            caught.value.faults[3].split(",")[0],
        ]
        assert caught.value.faults[3].startswith("name: unknown key 'name'")


class TestReading:
    def test_it_is_read_once(self) -> None:
        assert conf.get_config() is conf.get_config()

    def test_threads_that_come_first_together_get_one_object(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        parse, goes_on = conf.parse, threading.Event()
        readers, found = [], []
        entered = [threading.Event(), threading.Event()]

        def slowly(given: object) -> conf.Config:
            readers.append(threading.current_thread())
            entered[len(readers) - 1].set()
            goes_on.wait()
            return parse(given)

        def read() -> None:
            found.append(conf.get_config())

        monkeypatch.setattr(conf, "parse", slowly)
        with override_settings(REDQ={}):
            threads = [threading.Thread(target=read) for _ in range(2)]
            threads[0].start()
            entered[0].wait()
            threads[1].start()
            # The other one must not come so far; there is no event for that.
            came_too = entered[1].wait(0.1)
            goes_on.set()
            for thread in threads:
                thread.join()
        assert not came_too
        assert found[0] is found[1]

    def test_a_changed_setting_is_read_again_and_back(self) -> None:
        before = conf.get_config()
        with override_settings(REDQ={"NAMESPACE": "other"}):
            assert conf.get_config().namespace == "other"
        assert conf.get_config() == before

    @pytest.mark.parametrize(
        "changed", [{"CACHES": {}}, {"DJANGO_REDIS_CONNECTION_FACTORY": "x.Y"}]
    )
    def test_what_a_connection_is_read_from_makes_it_another_object(self, changed: Any) -> None:
        before = conf.get_config()
        with override_settings(**changed):
            assert conf.get_config() is not before

    def test_another_setting_leaves_it(self) -> None:
        before = conf.get_config()
        with override_settings(SITE_ID=3):
            assert conf.get_config() is before

    def test_a_faulty_setting_is_not_remembered(self) -> None:
        with override_settings(REDQ={"NAMESPACE": ""}), pytest.raises(ConfigurationError):
            conf.get_config()
        assert conf.find_faults() == []

    @pytest.mark.parametrize(
        ("redq", "is_told"),
        [
            ({"SHARDS": 1, "QUEUES": {"email": 3}}, True),
            ({"NAMESPACE": "", "CONNECTION": {"URL": "redis://a"}}, True),
            ({"CONNECTION": {}}, False),
            ([], False),
        ],
    )
    def test_the_connection_of_a_faulty_setting(self, redq: Any, is_told: bool) -> None:
        with override_settings(REDQ=redq):
            assert (conf.find_connection() is not None) == is_told


class _Nowhere(tzinfo):
    """A zone that does not know its offset: by Python's rules a datetime in it is naive."""

    def utcoffset(self, dt: datetime | None) -> None:
        return None


class TestRunAt:
    def test_an_aware_datetime(self) -> None:
        assert conf.to_epoch_ms(datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)) == 1_767_323_045_678

    def test_zones_and_daylight_saving(self) -> None:
        berlin = ZoneInfo("Europe/Berlin")
        twice = datetime(2026, 10, 25, 2, 30, tzinfo=berlin)
        first, second = conf.to_epoch_ms(twice), conf.to_epoch_ms(twice.replace(fold=1))
        assert second - first == 3_600_000

    def test_it_is_rounded_up_so_that_no_task_is_early(self) -> None:
        assert conf.to_epoch_ms(datetime(1970, 1, 1, 0, 0, 0, 1, UTC)) == 1

    def test_the_distant_past_is_the_epoch(self) -> None:
        assert conf.to_epoch_ms(datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))) == 0

    def test_the_year_9999_is_the_last(self) -> None:
        last = datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)
        assert conf.to_epoch_ms(last) == conf.LATEST_MS
        for late in (
            last.replace(microsecond=999_001),
            last.replace(tzinfo=timezone(-timedelta(hours=1))),
        ):
            with pytest.raises(InvalidArgument, match="run_at: must not be after the year 9999"):
                conf.to_epoch_ms(late)

    @pytest.mark.parametrize("zone", [None, _Nowhere()])
    @override_settings(USE_TZ=True)
    def test_naive_under_use_tz_is_refused(self, zone: tzinfo | None) -> None:
        with pytest.raises(InvalidArgument, match="run_at: is naive, and USE_TZ is on"):
            conf.to_epoch_ms(datetime(2026, 1, 1, tzinfo=zone))

    @override_settings(USE_TZ=False, TIME_ZONE="America/New_York")
    def test_naive_without_use_tz_is_in_time_zone(self) -> None:
        assert conf.to_epoch_ms(datetime(2026, 1, 1)) == conf.to_epoch_ms(  # noqa: DTZ001
            datetime(2026, 1, 1, 5, tzinfo=UTC)
        )

    @override_settings(USE_TZ=False, TIME_ZONE="America/New_York")
    def test_aware_without_use_tz_is_what_it_says(self) -> None:
        assert conf.to_epoch_ms(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == 1_000

    @pytest.mark.parametrize("value", [date(2026, 1, 1), "2026-01-01", 3, True, None, math.inf])
    def test_what_is_no_datetime(self, value: Any) -> None:
        with pytest.raises(InvalidArgument, match="run_at: must be a datetime, got a") as caught:
            conf.to_epoch_ms(value)
        assert caught.value.field == "run_at"
