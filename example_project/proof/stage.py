"""Everything that runs during a demo: servers around the shop, the shop, its queue processes."""

from __future__ import annotations

import fcntl
import http.client
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Self

import django
from django.core.management import call_command

from django_redq.devserver import HOST, DevServer, free_port
from proof import partners
from proof.children import PROJECT, Child, ChildDied, Children
from proof.customers import Customers
from proof.display import Display
from proof.ledger import Kind, Ledger
from proof.mail import MailServer

VAR = PROJECT / "var"
QUEUES = ("email", "webhook", "loyalty")
CONCURRENCY = 8
PATIENCE = 60.0
"""Seconds without any change after which a wait is given up."""
TICK = 0.25


class BrokenPromise(Exception):
    """Something that django-redq promises did not hold."""


class Occupied(Exception):
    """Another demo runs in this checkout."""


class Stage:
    """Sets everything up, and takes it down on every way out.

    with Stage(Display()) as stage:
        stage.start_consumer()
    """

    def __init__(self, display: Display) -> None:
        self.display = display
        self.ledger = Ledger()
        self.web_port = free_port()
        self.customers = Customers(HOST, self.web_port, self.ledger)
        self.partners = {name: cls(self.ledger) for name, cls in partners.BY_NAME.items()}
        self._exits = ExitStack()
        self._consumers = 0
        self._schedulers = 0

    def __enter__(self) -> Self:
        with self._exits:  # takes down what stands already where a step fails
            self._set_up()
            self._exits = self._exits.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._exits.close()

    @property
    def web_address(self) -> str:
        return f"http://{HOST}:{self.web_port}"

    def wait(self, until: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
        """Wait for ``until``, which looks at real counts, and show progress meanwhile.

        Raises:
            ChildDied: a process of the demo ended by itself.
            BrokenPromise: nothing moved for ``patience`` seconds.
        """
        seen, seen_at = "", time.monotonic()
        while not until():
            self.check()
            status = self.status()
            self.display.progress(status)
            if status != seen:
                seen, seen_at = status, time.monotonic()
            elif time.monotonic() - seen_at > patience:
                raise BrokenPromise(
                    f"nothing moved for {patience:g} s, waiting for {what}: {' '.join(status.split())}"
                )
            time.sleep(TICK)

    def check(self) -> None:
        """Raise :class:`ChildDied` where a part of the stage has ended by itself."""
        if not self._redis.is_running:
            end = "\n  ".join(self._redis.log.splitlines()[-5:])
            raise ChildDied(f"Valkey ended; its log ends with\n  {end}")
        self.children.check()

    def status(self) -> str:
        """The counts so far, in a line."""
        ledger, reached = self.ledger, self.ledger.reached
        return (
            f"ordered {ledger.answered:>5}   mailed {reached[Kind.CONFIRMATION]:>5}   "
            f"reminders {reached[Kind.REMINDER]:>5}   "
            f"delivered {reached[Kind.WEBHOOK]:>5}   rebuffs {ledger.rebuffs:>5}"
        )

    def let_order(self, forms: Iterable[Mapping[str, object]], *, pause: float) -> Future[None]:
        """Have the customers post ``forms`` in the background, ``pause`` s between two crowds."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="customers")
        self._exits.callback(self.customers.leave.set)
        posting = pool.submit(self.customers.order, forms, pause)
        pool.shutdown(wait=False)
        return posting

    def wait_for_orders(self, posting: Future[None]) -> None:
        """Wait until the customers have posted all.

        Raises:
            Unanswered: they met with a strange answer.
        """
        self.wait(posting.done, "all orders to be answered")
        self.check()  # a web server that died is a better answer than one that did not reply
        posting.result()

    def _set_up(self) -> None:
        self.display.say("starting Valkey, a mail server, four partners, and the shop")
        self._clear_var()
        self._redis = self._exits.enter_context(DevServer(data_dir=VAR / "valkey"))
        mail = MailServer(self.ledger)
        mail.start()
        self._exits.callback(mail.stop)
        for partner in self.partners.values():
            partner.start()
            self._exits.callback(partner.stop)
        self.children = Children(VAR, self._environment(mail))
        os.environ.update(self.children.env)
        self._furnish_shop()
        self._exits.callback(self.children.stop)
        self._open_shop()

    def _clear_var(self) -> None:
        """Start from nothing, unless another run is at work there."""
        VAR.mkdir(exist_ok=True)
        lock = self._exits.enter_context((VAR / "lock").open("w"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Occupied(f"another run is using {VAR}; stop it first") from None
        for path in VAR.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != "lock":
                path.unlink()

    def _environment(self, mail: MailServer) -> dict[str, str]:
        return {
            "DJANGO_SETTINGS_MODULE": "shop.settings",
            "SHOP_VAR": str(VAR),
            "SHOP_REDIS_URL": self._redis.url,
            "SHOP_SMTP_HOST": HOST,
            "SHOP_SMTP_PORT": str(mail.port),
            "PYTHONUNBUFFERED": "1",
            "NO_PROXY": HOST,  # a proxy in the environment is not for servers of this machine
            "no_proxy": HOST,
        }

    def _furnish_shop(self) -> None:
        """A fresh database with products, partners and somebody to log in as."""
        django.setup()
        from django.contrib.auth.models import User
        from shop.factories import STOCK
        from shop.models import Partner, Product

        call_command("migrate", verbosity=0)
        User.objects.create_superuser("admin", password="admin")  # noqa: S106 - a demo's
        for slug, stock in STOCK.items():
            Product.objects.create(slug=slug, price="19.90", stock=stock)
        for name, partner in self.partners.items():
            Partner.objects.create(slug=name, webhook_url=partner.url)

    def _open_shop(self) -> None:
        address = f"{HOST}:{self.web_port}"
        # runserver has no handler for SIGTERM, so it ends by it: 128 + 15.
        self.children.start("web", "runserver", address, "--noreload", exit_code=143)
        self.wait(self._web_answers, "the web server to answer")

    def _web_answers(self) -> bool:
        connection = http.client.HTTPConnection(HOST, self.web_port, timeout=5)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def start_consumer(self) -> Child:
        """One more process that works on all queues."""
        self._consumers += 1
        name = f"consumer-{self._consumers}"
        concurrency = str(CONCURRENCY)
        return self.children.start(
            name, "redq_consume", *QUEUES, "--name", name, "--concurrency", concurrency
        )

    def start_scheduler(self) -> Child:
        self._schedulers += 1
        return self.children.start(f"scheduler-{self._schedulers}", "redq_scheduler")
