"""The processes that answer requests: gunicorn's master and its workers."""

import os
import signal
import sys
import threading
import time
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication

from service.app import create_app
from service.settings import Settings
from service.store.database import Database


class Server(BaseApplication):  # type: ignore[misc] # gunicorn is untyped
    """gunicorn, configured by our settings alone."""

    def __init__(self, settings: Settings) -> None:
        """Prepare to serve; nothing is bound before :meth:`run`."""
        self.settings = settings
        super().__init__()

    def load_config(self) -> None:
        """Set what differs from gunicorn's defaults."""
        settings = self.settings
        options: dict[str, Any] = {
            "bind": [f"{settings.host}:{settings.port}"],
            "workers": settings.workers,
            "threads": settings.threads,
            "worker_class": "gthread",
            # Clients keep their connections; proxies in front close theirs earlier.
            "keepalive": 75,
            "graceful_timeout": 20,
            "timeout": 60,
            "preload_app": True,
            # Its socket in the home folder collides between two servers.
            "control_socket_disable": True,
            "loglevel": "warning",
            "forwarded_allow_ips": "*" if settings.trusted_proxies else "127.0.0.1,::1",
        }
        for name, value in options.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """Return the application; connections are made by each worker when it first needs one."""
        settings = self.settings
        return create_app(settings, Database(settings.database_url, pool_size=settings.threads))


def _end_with(parent: int) -> None:
    """End this process in an orderly way when the one that started it is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Serve until told to stop, or until the process that started this one is gone."""
    sys.argv = ["rendezvous"]
    parent = os.getppid()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    Server(Settings.from_environment()).run()


if __name__ == "__main__":
    main()
