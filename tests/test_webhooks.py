"""Webhooks: signed, in order, again until they are taken, and never to private addresses."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import orjson
import pytest
from client import Client, Contract, Json, Person, expect, problem
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from documents import SIGNING_KEYS
from flask import Flask
from hall import Host, enter, finish, happened, organiser
from server import await_
from sqlalchemy import Connection, text
from standardwebhooks import Webhook

from service import posting
from service.app import create_app
from service.delivery import Deliverer
from service.settings import Settings
from service.signatures import SigningKeys
from service.store.database import Database
from service.tokens import SCOPES
from service.tournaments import webhooks


@dataclass
class Receiver:
    """A server that takes messages, and answers as it is told.

    Attributes:
        answers: Statuses of its next answers; after them 200.
        heard: Headers and bodies of what it took.
        open: Set while it answers at all.
    """

    url: str = ""
    answers: list[int] = field(default_factory=list)
    heard: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    open: threading.Event = field(default_factory=threading.Event)
    busy: int = 0
    most: int = 0

    @property
    def numbers(self) -> list[int]:
        """The numbers of the events that it took, in order."""
        return [orjson.loads(body)["data"]["number"] for _, body in self.heard]


@contextmanager
def receiving(secure: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """Run a receiver."""
    found = Receiver()
    found.open.set()

    class Handler(BaseHTTPRequestHandler):
        timeout: ClassVar[float] = 10

        def do_POST(self) -> None:
            found.busy += 1
            found.most = max(found.most, found.busy)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.heard.append(({n.lower(): v for n, v in self.headers.items()}, body))
            found.open.wait(8)
            status = found.answers.pop(0) if found.answers else 200
            found.busy -= 1
            self.send_response(status)
            if status == 302:
                self.send_header("Location", found.url)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """Nothing: some clients break off."""

    with Server(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        if secure is not None:
            found.url = found.url.replace("http", "https")
            # The handshake is made when a thread of its own reads the first byte.
            server.socket = secure.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture(scope="module")
def app(database: Database) -> Flask:
    """The service of a closed network."""
    settings = Settings(rate_limits="off", webhook_private="allow")
    return create_app(settings, database, SigningKeys.load(SIGNING_KEYS))


@pytest.fixture(scope="module")
def contract(app: Flask) -> Contract:
    return Contract(app)


@pytest.fixture
def host(client: Client, database: Database) -> Host:
    return organiser(client.register("Grace"), database)


@pytest.fixture
def public(app: Flask, database: Database) -> Flask:
    """The service as it is without that setting."""
    assert app
    return create_app(Settings(rate_limits="off"), database)


def hook(host: Host, tournament: Json, url: str, **more: Any) -> tuple[Json, str]:
    """Return a new webhook and its secret."""
    made = expect(host.act(tournament, "webhooks", {"url": url, **more}), 201)
    return made["webhook"], made["secret"]


def deliver(database: Database, *, private: bool = True) -> None:
    """Deliver what is due, until nothing is."""
    failed: list[str] = []
    deliverer = Deliverer(database, private=private, failed=failed.append)
    while deliverer.step():
        deliverer.wait()
    deliverer.end()
    assert failed == []


def hurry(database: Database) -> None:
    """Have all pauses be over."""
    query = text("UPDATE webhooks SET due_at = now(), held_until = NULL WHERE disabled_at IS NULL")
    database.run(lambda one: one.execute(query))


def listed(host: Host, webhook: Json) -> list[Json]:
    """Return deliveries, the earliest first."""
    found: list[Json] = expect(host.get(webhook["links"]["deliveries"]))["deliveries"]
    return found[::-1]


def test_what_happens_is_posted_signed_and_in_order(
    host: Host, ada: Person, receiver: Receiver, database: Database
) -> None:
    tournament = host.tournament()
    webhook, secret = hook(host, tournament, receiver.url)
    enter(ada, tournament)
    finish(ada, tournament)
    deliver(database)
    events = happened(host, tournament)[3:]

    assert receiver.numbers == [4, 5]
    for (headers, body), event in zip(receiver.heard, events, strict=True):
        told = Webhook(secret).verify(body, headers)
        assert told == {
            "type": f"tournament.{event['kind']}",
            "timestamp": event["at"],
            "data": {"tournament": tournament["id"], **event},
        }
        assert headers["webhook-id"].startswith(f"{tournament['id']}-{event['number']}-")
    assert [(one["number"], one["attempt"], one["status"]) for one in listed(host, webhook)] == [
        (4, 1, 200),
        (5, 1, 200),
    ]
    assert expect(host.act(tournament, "webhooks", {"url": receiver.url}), 201)["secret"] != secret


def test_the_secret_is_told_once(host: Host, receiver: Receiver) -> None:
    tournament = host.tournament()
    webhook, secret = hook(host, tournament, receiver.url)
    path = f"{tournament['links']['self']}/webhooks"

    assert secret.startswith("whsec_")
    assert secret[6:] not in host.get(path).get_data(as_text=True)
    assert secret[6:] not in host.get("/v1/players/me/export").get_data(as_text=True)
    assert expect(host.get(path))["webhooks"] == [webhook]


def test_who_makes_and_removes_one_is_told_to_the_hosts(
    host: Host, ada: Person, receiver: Receiver, database: Database
) -> None:
    """By its id alone: a URL may hold what is secret."""
    tournament = host.tournament()
    webhook, _ = hook(host, tournament, receiver.url)
    host.ask("DELETE", webhook["links"]["self"])
    deliver(database)
    made, removed = happened(host, tournament)[2:]

    assert (made["kind"], removed["kind"]) == ("webhook-made", "webhook-removed")
    for one in (made, removed):
        assert (one["by"], one["data"]) == (host.id, {"webhook": webhook["id"]})
    assert [one["kind"] for one in happened(ada, tournament)] == ["published"]
    assert receiver.heard == []


def test_only_the_kinds_that_were_asked_for(
    host: Host, ada: Person, receiver: Receiver, database: Database
) -> None:
    tournament = host.tournament()
    webhook, _ = hook(host, tournament, receiver.url, kinds=["result"])
    enter(ada, tournament)
    finish(ada, tournament)
    host.act(tournament, "freeze")
    deliver(database)

    assert receiver.numbers == [5]
    misspelt = host.act(tournament, "webhooks", {"url": receiver.url, "kinds": ["results"]})
    assert problem(misspelt) == (422, "invalid-request")
    assert misspelt.get_json()["errors"][0]["pointer"] == "/kinds/0"
    (kept,) = expect(host.get(f"{tournament['links']['self']}/webhooks"))["webhooks"]
    assert (kept["done"], webhook["done"]) == (6, 3)


def test_s_8_one_that_fails_is_sent_again_and_those_behind_it_wait(
    host: Host, ada: Person, receiver: Receiver, database: Database
) -> None:
    """S-8: nothing is left out, whatever fails; the id stays the same."""
    tournament = host.tournament()
    webhook, _ = hook(host, tournament, receiver.url)
    enter(ada, tournament)
    host.act(tournament, "freeze")
    receiver.answers = [500, 302, 404]
    for turn in range(4):
        deliver(database)
        if turn < 3:
            assert receiver.numbers == [4] * (turn + 1)
            deliver(database)  # not before its pause is over
        hurry(database)

    assert receiver.numbers == [4, 4, 4, 4, 5]
    assert len({headers["webhook-id"] for headers, _ in receiver.heard[:4]}) == 1
    told = [(one["number"], one["attempt"], one["status"]) for one in listed(host, webhook)]
    assert told == [(4, 1, 500), (4, 2, 302), (4, 3, 404), (4, 4, 200), (5, 1, 200)]
    assert "redirect" in listed(host, webhook)[1]["error"]


def test_two_processes_deliver_each_event_once_and_in_order(
    host: Host, ada: Person, receiver: Receiver, database: Database
) -> None:
    tournament = host.tournament((0, 600, 5))
    hook(host, tournament, receiver.url)
    enter(ada, tournament)
    for deal in range(1, 6):
        finish(ada, tournament, deal=deal)
    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(deliver, database) for _ in range(2)]:
            one.result()

    assert receiver.numbers == list(range(4, 10))
    assert receiver.most == 1


def test_one_whose_process_was_killed_is_taken_up_again_when_its_lease_is_over(
    host: Host, receiver: Receiver, database: Database
) -> None:
    tournament = host.tournament()
    hook(host, tournament, receiver.url)
    host.act(tournament, "freeze")
    claims = database.run(partial(webhooks.claim, most=100), transaction=True)
    deliver(database)
    meanwhile = list(receiver.heard)
    hurry(database)
    deliver(database)
    late = database.run(
        partial(
            webhooks.record,
            held=claims[-1],
            number=4,
            outcome=posting.Outcome(200, None),
            jitter=0.0,
        ),
        transaction=True,
    )

    assert meanwhile == []
    assert receiver.numbers == [4]
    assert late is None


def test_s_89_after_a_restore_what_happened_otherwise_has_another_id(
    host: Host, ada: Person, receiver: Receiver, database: Database
) -> None:
    """S-89: a receiver that passes by what it took already takes it."""
    tournament = host.tournament()
    hook(host, tournament, receiver.url)
    host.act(tournament, "freeze")
    deliver(database)
    for query in (
        "DELETE FROM tournament_events WHERE tournament_id = :id AND number = 4",
        "UPDATE tournaments SET events = 3 WHERE id = :id",
        "UPDATE webhooks SET cursor = 3 WHERE tournament_id = :id",
    ):
        change = text(query).bindparams(id=UUID(tournament["id"]))
        database.run(partial(Connection.execute, statement=change))
    enter(ada, tournament)
    deliver(database)

    assert receiver.numbers == [4, 4]
    assert len({headers["webhook-id"] for headers, _ in receiver.heard}) == 2


@pytest.mark.parametrize("how", ["gone", "late"])
def test_one_that_is_given_up_is_told_to_its_hosts_and_can_go_on(
    host: Host, ada: Person, receiver: Receiver, database: Database, how: str
) -> None:
    tournament = host.tournament()
    webhook, _ = hook(host, tournament, receiver.url)
    host.act(tournament, "freeze")
    receiver.answers = [410] if how == "gone" else [500, 500]
    deliver(database)
    if how == "late":
        host.elapse(tournament, 3 * 24 * 3600 + 60)
        deliver(database)
    given_up = expect(host.get(f"{tournament['links']['self']}/webhooks"))["webhooks"][0]
    told, others = happened(host, tournament)[-1], happened(ada, tournament)[-1]
    hurry(database)
    deliver(database)
    silent = receiver.numbers
    again = host.post(webhook["links"]["redeliveries"], {"from": 1, "to": 3})
    deliver(database)

    assert "disabled_at" in given_up
    assert told["kind"] == "webhook-disabled"
    assert told["data"]["number"] == 4
    assert others["kind"] == "frozen"
    assert set(silent) == {4}
    assert again.status_code == 202
    assert receiver.numbers == [*silent, 1, 2, 3, 4, 5]


def test_a_range_is_posted_again_before_what_is_to_come(
    host: Host, ada: Person, receiver: Receiver, database: Database
) -> None:
    tournament = host.tournament()
    webhook, _ = hook(host, tournament, receiver.url)
    enter(ada, tournament)
    deliver(database)
    again = webhook["links"]["redeliveries"]
    host.act(tournament, "freeze")
    expect(host.post(again, {"from": 2, "to": 99}), 202)
    deliver(database)

    assert receiver.numbers == [4, 2, 3, 4, 5]
    assert problem(host.post(again, {"from": 6, "to": 7})) == (409, "wrong-state")
    refused = problem(host.post(again, {"from": 2, "to": 1}))
    assert refused == (422, "invalid-request")
    assert refused.body["errors"][0]["pointer"] == "/to"


@contextmanager
def delivering(database: Database, receiver: Receiver) -> Iterator[None]:
    """Have a delivery go on from the block's beginning to its end."""
    before = len(receiver.heard)
    receiver.open.clear()
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(deliver, database)
        try:
            await_(lambda: len(receiver.heard) > before)
            yield
        finally:
            receiver.open.set()
        under_way.result()


@pytest.mark.parametrize("answer", [200, 500])
def test_what_is_to_be_posted_again_waits_for_what_is_being_posted(
    host: Host, ada: Person, receiver: Receiver, database: Database, answer: int
) -> None:
    tournament = host.tournament()
    webhook, _ = hook(host, tournament, receiver.url)
    enter(ada, tournament)
    host.act(tournament, "freeze")
    receiver.answers = [answer]
    with delivering(database, receiver):
        expect(host.post(webhook["links"]["redeliveries"], {"from": 1, "to": 2}), 202)
        deliver(database)
        meanwhile = list(receiver.numbers)
    deliver(database)

    assert meanwhile == [4]
    assert receiver.numbers == [4, 1, 2, 4, 5]
    assert receiver.most == 1
    assert [one["status"] for one in listed(host, webhook)] == [answer, 200, 200, 200, 200]


def test_who_loses_the_part_while_events_are_posted_is_posted_no_more(
    host: Host, ada: Person, receiver: Receiver, database: Database
) -> None:
    tournament = host.tournament()
    director = organiser(ada, database)
    part = f"{tournament['links']['self']}/roles/{ada.id}"
    expect(host.ask("PUT", part, {"role": "director"}))
    hook(director, tournament, receiver.url)
    host.act(tournament, "freeze")
    host.act(tournament, "unfreeze")
    with delivering(database, receiver):
        host.ask("DELETE", part)
    deliver(database)

    assert receiver.numbers == [5]


def test_who_hosts_no_longer_is_posted_nothing(
    host: Host, ada: Person, receiver: Receiver, database: Database
) -> None:
    tournament = host.tournament()
    director = organiser(ada, database)
    given = {"id": tournament["id"], "player": ada.id}
    role = text("INSERT INTO tournament_roles VALUES (:id, :player, 'director', now())")
    database.run(lambda one: one.execute(role, given))
    hook(director, tournament, receiver.url)
    host.act(tournament, "freeze")
    deliver(database)
    gone = text("DELETE FROM tournament_roles WHERE player_id = :player")
    database.run(lambda one: one.execute(gone, given))
    host.act(tournament, "unfreeze")
    deliver(database)

    assert receiver.numbers == [4]


def test_an_administrator_whose_token_has_expired_is_posted_nothing(
    host: Host, ada: Person, database: Database, receiver: Receiver
) -> None:
    tournament = host.tournament()
    admin = organiser(ada, database, *SCOPES)
    hook(admin, tournament, receiver.url)
    expect(host.act(tournament, "freeze"))
    deliver(database)
    assert receiver.numbers == [4]
    spent = text("UPDATE tokens SET expires_at = now() WHERE player_id = :player")
    database.run(lambda one: one.execute(spent, {"player": admin.id}))

    expect(host.act(tournament, "unfreeze"))
    deliver(database)

    assert receiver.numbers == [4]


def test_it_can_be_removed_and_there_are_so_many_at_most(
    host: Host, ada: Person, receiver: Receiver, database: Database
) -> None:
    tournament = host.tournament()
    many = [hook(host, tournament, receiver.url)[0] for _ in range(10)]
    one_more = host.act(tournament, "webhooks", {"url": receiver.url})
    for one in many:
        path = one["links"]["self"]
        assert host.ask("DELETE", path).status_code == 204
        assert problem(host.ask("DELETE", path)) == (404, "not-found")
        assert problem(host.get(one["links"]["deliveries"])) == (404, "not-found")
        again = host.post(one["links"]["redeliveries"], {"from": 1, "to": 1})
        assert problem(again) == (404, "not-found")
    host.act(tournament, "freeze")
    deliver(database)

    assert problem(one_more) == (409, "too-many-webhooks")
    assert receiver.heard == []
    stranger = organiser(ada, database)
    made = stranger.act(tournament, "webhooks", {"url": receiver.url})
    assert problem(made) == (403, "role-missing")


class TestAddresses:
    @pytest.mark.parametrize(
        "address",
        [
            *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
            *("0.0.0.0", "100.64.0.1", "224.0.0.1", "255.255.255.255", "192.0.0.1"),  # noqa: S104
            *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1"),
            *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1"),
            *("2002:7f00:1::", "2001:0:0:0:0:0:80ff:fffe", "2001:db8::1"),
        ],
    )
    def test_one_that_is_not_of_the_public_internet(
        self, address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By itself, and as what a name resolves to, beside one that is public."""
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 443))
            for one in ("93.184.215.14", address)
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        monkeypatch.setattr(socket, "socket", _never)

        by_name = send("https://example.org/")

        assert not posting.is_public(address)
        assert (by_name.status, by_name.error) == (None, posting._PRIVATE)
        if "%" not in address:
            shown = f"[{address}]" if ":" in address else address
            assert send(f"https://{shown}/").error == posting._PRIVATE

    @pytest.mark.parametrize("address", ["93.184.215.14", "2606:4700:4700::1111"])
    def test_one_that_is(self, address: str) -> None:
        assert posting.is_public(address)

    def test_a_name_that_resolves_to_this_machine(self, receiver: Receiver) -> None:
        port = receiver.url.rpartition(":")[2]
        for name in ("localhost", "127.1", "0x7f000001", "2130706433"):
            assert send(f"https://{name}:{port}").error == posting._PRIVATE
        assert receiver.heard == []

    def test_a_name_of_a_private_network_is_not_told_apart_from_one_that_nobody_has(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """To hosts: the service's own log names it."""

        def resolve(name: str, *_: Any, **__: Any) -> list[Any]:
            if name == "nobody.example":
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.1.2.3", 443))]

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        monkeypatch.setattr(socket, "socket", _never)

        assert send("https://vault.internal/") == send("https://nobody.example/")
        assert [one.getMessage() for one in caplog.records] == [
            "a webhook leads to an address that is not public: 'vault.internal'"
        ]
        assert send("http://nobody.example/", private=True).error == "its name is not known"

    def test_a_name_is_resolved_once(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []
        resolve = socket.getaddrinfo

        def once(name: str, *args: Any, **options: Any) -> Any:
            asked.append(name)
            return resolve("127.0.0.1", *args, **options)

        monkeypatch.setattr(socket, "getaddrinfo", once)
        url = receiver.url.replace("127.0.0.1", "hooks.example")

        assert send(url, private=True).status == 200
        assert asked == ["hooks.example"]
        assert receiver.heard[0][0]["host"].startswith("hooks.example:")

    def test_a_redirect_is_not_followed(self, receiver: Receiver) -> None:
        receiver.answers = [302]

        assert send(receiver.url, private=True).status == 302
        assert len(receiver.heard) == 1

    @pytest.mark.parametrize(
        "url",
        [
            *("http://example.org/", "https://127.0.0.1/", "https://[::1]/", "https://"),
            *("https://ada@example.org/", "https://example.org/#x", "https://example.org:x/"),
            *("https://example.org:0/", "https://[::ffff:10.0.0.1]/", "https://[1/"),
        ],
    )
    def test_a_url_that_will_not_do_is_refused_at_once(
        self, host: Host, public: Flask, url: str
    ) -> None:
        tournament = host.tournament()
        path = f"{tournament['links']['self']}/webhooks"
        other = Client(public, Contract(public), host.token)
        refused = problem(other.post(path, {"url": url}))

        assert refused == (422, "invalid-request")
        assert refused.body["errors"][0]["pointer"] == "/url"
        assert expect(host.get(path))["webhooks"] == []

    def test_what_was_allowed_before_is_not_posted_to_when_it_is_no_longer(
        self, host: Host, receiver: Receiver, database: Database
    ) -> None:
        tournament = host.tournament()
        webhook, _ = hook(host, tournament, receiver.url)
        host.act(tournament, "freeze")
        deliver(database, private=False)

        assert receiver.heard == []
        assert "https" in listed(host, webhook)[0]["error"]


def certificate(name: str, folder: Path) -> Path:
    """Return a file with a new certificate for a name, signed by itself, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / f"{name}.pem"
    file.write_bytes(
        signed.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return file


class TestSecure:
    """Whoever is at the address that was checked proves to have the name."""

    @pytest.fixture
    def shown(self, tmp_path: Path) -> Path:
        """The certificate of the receiver."""
        return certificate("hooks.example", tmp_path)

    @pytest.fixture
    def asked(self) -> list[str | None]:
        """The names for which the receiver was asked in handshakes."""
        return []

    @pytest.fixture
    def secure(
        self, shown: Path, asked: list[str | None], monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Receiver]:
        """A receiver at an address that every name has."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(shown)
        context.sni_callback = lambda _, name, __: asked.append(name)
        resolve = socket.getaddrinfo
        monkeypatch.setattr(
            socket, "getaddrinfo", lambda _, *args, **given: resolve("127.0.0.1", *args, **given)
        )
        with receiving(context) as found:
            yield found

    def test_whoever_has_a_certificate_for_the_name_is_posted_to(
        self,
        secure: Receiver,
        shown: Path,
        asked: list[str | None],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(shown))
        url = secure.url.replace("127.0.0.1", "hooks.example")

        assert send(url, private=True) == posting.Outcome(200, None)
        assert asked == ["hooks.example"]
        assert secure.heard[0][0]["host"] == url.split("/")[2]

    @pytest.mark.parametrize("why", ["another name", "the address", "nobody's word"])
    def test_whoever_has_none_hears_nothing(
        self, secure: Receiver, shown: Path, why: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = {"another name": "other.example", "the address": "127.0.0.1"}.get(
            why, "hooks.example"
        )
        if why != "nobody's word":
            monkeypatch.setenv("SSL_CERT_FILE", str(shown))

        outcome = send(secure.url.replace("127.0.0.1", name), private=True)

        assert outcome == posting.Outcome(None, "no secure connection: CERTIFICATE_VERIFY_FAILED")
        assert secure.heard == []


def _never(*_: Any, **__: Any) -> Any:
    raise AssertionError("a connection was made")


def send(url: str, *, private: bool = False) -> posting.Outcome:
    """Post something."""
    return posting.post(url, b"secret", "1", datetime.now(UTC), b"{}", private=private)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have patience for half a second."""
    monkeypatch.setattr(posting, "CONNECT_WITHIN", 0.5)
    monkeypatch.setattr(posting, "WHOLE_WITHIN", 0.5)


HEAD = b"HTTP/1.1 200 OK\r\n"
PIECES: dict[str, tuple[float, list[bytes]]] = {
    "silence": (2, [b""]),
    "a slow head": (0.1, [b"HTTP/1.1 200 OK\r\n", *[b"X: y\r\n"] * 30]),
    "a slow body": (0.1, [HEAD + b"Content-Length: 1000\r\n\r\n", *[b"."] * 30]),
    "a slow body that ends with the connection": (0.1, [HEAD + b"\r\n", *[b"."] * 30]),
    "noise": (0, [b"\0" * 100 + b"\r\n\r\n"]),
    "nothing": (0, []),
    "much": (0, [HEAD + b"\r\n", *[b"." * (1 << 16)] * 1000]),
}


def answered_by(scheme: str, until: bytes, pause: float, told: list[bytes]) -> posting.Outcome:
    """Return how it goes where, once so much has come, pieces are sent with pauses; and soon."""

    def answer(listener: socket.socket) -> None:
        with suppress(TimeoutError):  # nobody came
            taken, _ = listener.accept()
            tell(taken)

    def tell(taken: socket.socket) -> None:
        heard = b""
        with taken, suppress(OSError):
            while not heard.endswith(until):
                heard += taken.recv(1 << 16)
            for piece in told:
                taken.sendall(piece)
                time.sleep(pause)

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        listener.settimeout(2)
        done = pool.submit(answer, listener)
        start = time.monotonic()
        outcome = send(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/", private=True)
        took = time.monotonic() - start
        done.result()

    assert took < 1.5
    return outcome


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("pieces", PIECES)
def test_whoever_answers_badly_holds_nobody_up(pieces: str) -> None:
    outcome = answered_by("http", b"{}", *PIECES[pieces])

    if pieces == "much":
        assert outcome == posting.Outcome(200, None)
    elif pieces in {"noise", "nothing"}:
        assert outcome.status is None
        assert str(outcome.error).startswith("no answer: ")
    else:
        assert outcome == posting.Outcome(None, "no answer in time")


@pytest.mark.usefixtures("hasty")
def test_a_slow_handshake_holds_nobody_up() -> None:
    """A record that is told to be long, and comes a byte at a time."""
    outcome = answered_by("https", b"", 0.1, [b"\x16\x03\x03\x3f\xff\x02", *[b"\0"] * 30])

    assert outcome == posting.Outcome(None, "no answer in time")


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("pause", [0.3, 0.7, 2])
def test_a_slow_look_up_holds_nobody_up(pause: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the time, after all of it, and after its own."""
    monkeypatch.setattr(posting, "CONNECT_WITHIN", 1)
    resolve = socket.getaddrinfo

    def slow(*args: Any, **options: Any) -> Any:
        time.sleep(pause)
        return resolve(*args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    outcome = answered_by("http", b"{}", 0.1, [HEAD + b"X: y\r\n", *[b"X: y\r\n"] * 30])

    assert outcome == posting.Outcome(None, "no answer in time")


def test_an_address_that_takes_no_connection_is_passed_by(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(receiver.url.split(":")[2].split("/")[0])
    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port))
        for one in ("127.0.0.2", "127.0.0.1")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    assert send(f"http://hooks.example:{port}/", private=True).status == 200
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found[:1])
    assert send(f"http://hooks.example:{port}/", private=True).error == (
        "no answer: ConnectionRefusedError"
    )
