"""The example shop as real processes, for a browser to look at; and the browser.

shop.furnish("dead_webhooks", 12)         # tasks that die, made by the shop's own handlers
shop.start_scheduler()                    # real processes, ended with the shop
shop.ledger.wait_for(Kind.CONFIRMATION)   # what its mail server really received
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from playwright.sync_api import Browser, sync_playwright

from django_redq.devserver import HOST, DevServer, free_port
from tests.harness import PATIENCE, ROOT, until

PROJECT = ROOT / "example_project"
sys.path.append(str(PROJECT))  # a project of its own, not a part of the package

from proof.children import Child, Children  # noqa: E402
from proof.ledger import Kind, Ledger  # noqa: E402
from proof.mail import MailServer  # noqa: E402

FURNISH = Path(__file__).with_name("furnish.py")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
__all__ = ["CHROMIUM", "Kind", "Shop", "chromium"]
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Shop:
    """Web server, Valkey and mail server; scheduler and consumers on demand."""

    def __init__(self, directory: Path) -> None:
        self.ledger = Ledger()
        self.port = free_port()
        self._directory = directory
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        with self._exits:  # ends what runs already where a step fails
            self._open()
            self._exits = self._exits.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._exits.close()

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}"

    def furnish(self, what: str, *arguments: object) -> Any:
        """Runs a function of ``furnish.py`` inside the shop; what it returns."""
        done = subprocess.run(
            [sys.executable, str(FURNISH), what, *map(str, arguments)],
            env=self._children.env,
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def start_scheduler(self) -> Child:
        return self._children.start("scheduler", "redq_scheduler")

    def start_consumer(self) -> Child:
        return self._children.start("consumer", "redq_consume", "email", "webhook", "loyalty")

    def stop(self, child: Child) -> None:
        """Ends one of the processes, in whatever it is at."""
        self._children.kill(child)

    def _open(self) -> None:
        server = self._exits.enter_context(DevServer())
        mail = MailServer(self.ledger)
        mail.start()
        self._exits.callback(mail.stop)
        self._children = Children(self._directory, self._environment(server.url, mail.port))
        self._exits.callback(self._children.stop)
        self.furnish("shop")
        address = f"{HOST}:{self.port}"
        self._children.start("web", "runserver", address, "--noreload", exit_code=143)
        until(self._answers)

    def _environment(self, redis_url: str, mail_port: int) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "shop.settings",
            "SHOP_VAR": str(self._directory),
            "SHOP_REDIS_URL": redis_url,
            "SHOP_SMTP_HOST": HOST,
            "SHOP_SMTP_PORT": str(mail_port),
            "PYTHONPATH": f"{ROOT}:{PROJECT}",
            "PYTHONUNBUFFERED": "1",
            "NO_PROXY": HOST,
            "no_proxy": HOST,
        }

    def _answers(self) -> bool:
        self._children.check()
        connection = http.client.HTTPConnection(HOST, self.port, timeout=5)
        try:
            connection.request("GET", "/admin/login/")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's browser; none is downloaded."""
    # Its event loop runs in this thread for as long as this is open, and no sync Redis call may be
    # made beside it: what has to be known of the queues is asked by furnish().
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()
