"""Fixtures: a real Postgres for each test process, the app upon it, and clients for it.

What is marked `no_cover` goes many thousand times where other tests go, and would take two or three
times as long while lines are counted.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory, gettempdir

import pytest
from client import Client, Contract, Person
from documents import SIGNING_KEYS
from flask import Flask
from server import dumped

from service.app import create_app
from service.settings import Settings
from service.signatures import SigningKeys
from service.store import schema
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres

TOKEN = re.compile(rb"rr_[0-9A-Za-z]{46}")


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """A Postgres of this test process's own, durable as ever."""
    home = Path(gettempdir()) / f"rendezvous-tests-{token_hex(4)}"
    server = EmbeddedPostgres(home)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(home)


@pytest.fixture(scope="session")
def database(postgres: EmbeddedPostgres) -> Iterator[Database]:
    """The database at head. Tests share it and make what they need: players, games.

    S-56: after all of them it holds no token's text, and neither does Postgres's log.
    """
    found = Database(postgres.url)
    schema.upgrade(found.engine)
    yield found
    found.dispose()
    with TemporaryDirectory() as folder:
        for kept in (dumped(postgres.url, Path(folder)), postgres.log.read_bytes()):
            assert not TOKEN.search(kept)


@pytest.fixture(scope="session")
def app(database: Database) -> Flask:
    """The service."""
    return create_app(Settings(rate_limits="off"), database, SigningKeys.load(SIGNING_KEYS))


@pytest.fixture(scope="session")
def contract(app: Flask) -> Contract:
    """What the service has published about itself."""
    return Contract(app)


@pytest.fixture
def client(app: Flask, contract: Contract) -> Client:
    """Somebody without a token."""
    return Client(app, contract)


@pytest.fixture
def ada(client: Client) -> Person:
    """A player."""
    return client.register("Ada")


@pytest.fixture
def bea(client: Client) -> Person:
    """Another player."""
    return client.register("Bea")
