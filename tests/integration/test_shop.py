"""The shop of ``example_project``: its demo's count of what was lost has to be right itself.

That the shop works is shown by ``make demo ONCE=1``.
"""

from __future__ import annotations

import http.client
import json
import os
import smtplib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import django_redq

PROJECT = Path(__file__).resolve().parents[2] / "example_project"
sys.path.append(str(PROJECT))  # a project of its own, not a part of the package

from proof.ledger import Kind, Ledger, promises, settle  # noqa: E402
from proof.mail import MailServer  # noqa: E402
from proof.partners import DownPartner, FlakyPartner, Partner  # noqa: E402
from proof.report import broken_promises  # noqa: E402


@contextmanager
def running(server: MailServer | Partner) -> Iterator[None]:
    server.start()
    try:
        yield
    finally:
        server.stop()


def call(partner: Partner, order: str) -> int:
    """What the partner answers to a webhook about ``order``."""
    address = urlsplit(partner.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    try:
        connection.request("POST", address.path, json.dumps({"order_id": order}))
        return connection.getresponse().status
    finally:
        connection.close()


def mail(server: MailServer, **headers: str) -> None:
    message = EmailMessage()
    message["From"], message["To"] = "shop@example.org", "customer@example.org"
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    with smtplib.SMTP(server.hostname, server.port, timeout=30) as client:
        client.send_message(message)


def test_each_order_is_promised_everything_but_a_paid_one_no_reminder() -> None:
    assert promises({"a", "b"}, frozenset("b")) == {
        (Kind.CONFIRMATION, "a"),
        (Kind.REMINDER, "a"),
        (Kind.WEBHOOK, "a"),
        (Kind.POINTS, "a"),
        (Kind.CONFIRMATION, "b"),
        (Kind.WEBHOOK, "b"),
        (Kind.POINTS, "b"),
    }


def test_the_account_names_what_is_lost_unwanted_and_counts_duplicates() -> None:
    promised = {(Kind.WEBHOOK, "a"), (Kind.WEBHOOK, "b"), (Kind.CONFIRMATION, "a")}
    received = Counter({(Kind.WEBHOOK, "a"): 3, (Kind.WEBHOOK, "x"): 1, (Kind.REMINDER, "a"): 1})

    account = settle(promised, received)

    assert account.lost == ((Kind.CONFIRMATION, "a"), (Kind.WEBHOOK, "b"))
    assert account.unwanted == ((Kind.REMINDER, "a"), (Kind.WEBHOOK, "x"))
    assert account.duplicates == 2
    assert account.received == {Kind.WEBHOOK: 2, Kind.REMINDER: 1}


def test_what_is_found_elsewhere_counts_as_received() -> None:
    ledger = Ledger()
    ledger.accept("a", "swift")
    for kind in (Kind.CONFIRMATION, Kind.REMINDER, Kind.WEBHOOK):
        ledger.receive(kind, "a")
    assert ledger.account().lost == ((Kind.POINTS, "a"),)
    assert ledger.account([(Kind.POINTS, "a")]).lost == ()


def test_a_reminder_that_was_faster_than_the_payment_is_not_unwanted() -> None:
    ledger = Ledger()
    ledger.accept("early", "swift")
    ledger.accept("late", "swift")
    ledger.receive(Kind.REMINDER, "early")
    ledger.pay("early")
    ledger.pay("late")
    ledger.receive(Kind.REMINDER, "late")
    assert ledger.account().unwanted == ((Kind.REMINDER, "late"),)


@pytest.mark.parametrize(
    ("received", "leftovers", "fault"),
    [
        ({(Kind.WEBHOOK, "a"): 1}, (), ""),
        ({(Kind.WEBHOOK, "a"): 2}, (), ""),
        ({}, (), "1 lost, among them webhook of order a"),
        ({(Kind.WEBHOOK, "a"): 1, (Kind.WEBHOOK, "b"): 1}, (), "1 unwanted"),
        ({(Kind.WEBHOOK, "a"): 1}, ("email still holds 1 ready",), "email still holds 1 ready"),
    ],
)
def test_a_broken_promise_is_told(received, leftovers, fault) -> None:
    account = settle({(Kind.WEBHOOK, "a")}, received)
    told = "; ".join(broken_promises(account, leftovers))
    assert told.startswith(fault)
    assert bool(told) == bool(fault)


def test_the_mail_server_counts_each_mail_that_it_takes() -> None:
    ledger = Ledger()
    server = MailServer(ledger)
    with running(server):
        for _ in range(2):
            mail(server, X_Kind="reminder", X_Order="a")
        with pytest.raises(smtplib.SMTPDataError, match="shop's mails only"):
            mail(server, X_Kind="advertisement", X_Order="b")
    assert ledger.received == {(Kind.REMINDER, "a"): 2}


def test_a_partner_counts_each_webhook_that_it_takes() -> None:
    ledger = Ledger()
    partner = Partner(ledger)
    with running(partner):
        assert [call(partner, "a"), call(partner, "b"), call(partner, "a")] == [200, 200, 200]
    assert ledger.received == {(Kind.WEBHOOK, "a"): 2, (Kind.WEBHOOK, "b"): 1}


def test_the_flaky_partner_counts_what_it_turns_away_apart() -> None:
    ledger = Ledger()
    partner = FlakyPartner(ledger)
    answers: Counter[int] = Counter()
    with running(partner):
        while len(answers) < 3:
            answers[call(partner, "a")] += 1
    assert answers.keys() == {200, 429, 503}
    assert ledger.received == {(Kind.WEBHOOK, "a"): answers[200]}
    assert ledger.rebuffs == answers[429] + answers[503]


def test_the_partner_that_is_down_refuses_connections_until_it_is_mended() -> None:
    ledger = Ledger()
    partner = DownPartner(ledger)
    with running(partner):
        with pytest.raises(ConnectionRefusedError):
            call(partner, "a")
        partner.mend()
        assert call(partner, "a") == 200
    assert ledger.received == {(Kind.WEBHOOK, "a"): 1}


@pytest.mark.parametrize(
    "arguments",
    [("check", "--fail-level", "WARNING"), ("makemigrations", "--check", "--dry-run")],
)
def test_the_project_is_in_order(arguments: tuple[str, ...], tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "shop.settings",
        "SHOP_VAR": str(tmp_path),
        # The package under test, be it installed or not.
        "PYTHONPATH": str(Path(django_redq.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, PROJECT / "manage.py", *arguments],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
