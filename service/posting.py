"""Posting signed messages to addresses that others gave, and to no address that is none of theirs.

The name in a URL is resolved once, every address that it has is checked, and the connection is made
to one that was checked: there is no second look-up by which a name could change its mind. Redirects
are not followed, no proxy is asked, and little of the answer is read, for a short time: whoever is
slow, in whatever part of it, is cut off.
"""

import http.client
import ipaddress
import logging
import socket
import ssl
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import IPv6Address
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from standardwebhooks import Webhook

CONNECT_WITHIN: Final = 5.0
"""Seconds for the look-up of a name, for a connection to an address ..."""
WHOLE_WITHIN: Final = 10.0
"""... and for all of it, from the look-up to the last byte read."""

_READ: Final = 1 << 16
_GLOBAL: Final = ipaddress.IPv6Network("2000::/3")
_GONE: Final = 410

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a delivery went.

    Attributes:
        status: The answer's status, None where there was none.
        error: What went wrong, None where nothing did.
    """

    status: int | None
    error: str | None

    @property
    def gone(self) -> bool:
        """Whether whoever is there wants no more."""
        return self.status == _GONE


class BadUrlError(Exception):
    """Nothing is posted to the URL; the text says why."""


def split(url: str, *, private: bool) -> SplitResult:
    """Return the parts of a URL to which may be posted, as far as it tells by itself.

    Args:
        url: The URL.
        private: Whether it may be unencrypted, and lead to any address.

    Raises:
        BadUrlError: It is none.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadUrlError("not a URL") from error
    if parts.scheme != "https" and not (private and parts.scheme == "http"):
        raise BadUrlError("not a URL that begins with https://")
    if not parts.hostname or port == 0:
        raise BadUrlError("a URL without a host")
    if "@" in parts.netloc or parts.fragment:
        raise BadUrlError("a URL with a user or a fragment")
    with suppress(ValueError):  # most hosts are names
        if not private and not is_public(parts.hostname):
            raise BadUrlError(_PRIVATE)
    return parts


# A name that is known to this machine's network alone is not told apart from one that is not known.
_PRIVATE: Final = "it leads to no address of the public Internet"


def is_public(address: str) -> bool:
    """Return whether an address is one of the public Internet.

    Raises:
        ValueError: It is no address.
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        # What carries an address of IPv4 within would lead to that one.
        within = (found.ipv4_mapped, found.sixtofour, found.teredo)
        return found in _GLOBAL and found.is_global and not any(within)
    return found.is_global and not found.is_multicast


def _look_up(name: str, port: int) -> list[Any]:
    """Return the addresses of a name.

    The system's resolver knows no limit of time. One that goes beyond ours is left to itself; it
    gives up within a minute or so.
    """
    found: Future[list[Any]] = Future()

    def look() -> None:
        try:
            found.set_result(socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            found.set_exception(error)

    threading.Thread(target=look, daemon=True).start()
    return found.result(CONNECT_WITHIN)


class _Connection(http.client.HTTPConnection):
    """A connection to an address that was checked.

    Attributes:
        late: Set once it has been cut.
    """

    def __init__(self, parts: SplitResult, *, private: bool) -> None:
        super().__init__(parts.hostname or "", parts.port or 443, timeout=CONNECT_WITHIN)
        self.default_port = 443 if parts.scheme == "https" else 80
        if parts.port is None:
            self.port = self.default_port
        self.late = threading.Event()
        self._secure = parts.scheme == "https"
        self._private = private
        # The base class forgets its own as soon as an answer is to end with the connection.
        self._socket: socket.socket | None = None

    def connect(self) -> None:
        """Connect to the first of the addresses that the name has that takes connections."""
        found = _look_up(self.host, self.port)
        if not self._private and not all(is_public(str(one[-1][0])) for one in found):
            _log.warning("a webhook leads to an address that is not public: %r", self.host)
            raise BadUrlError(_PRIVATE)
        self.sock = self._socket = self._first(found)
        if self._secure:
            context = ssl.create_default_context()
            secure = context.wrap_socket(
                self.sock, server_hostname=self.host, do_handshake_on_connect=False
            )
            self.sock = self._socket = secure
            self._go_on()
            secure.do_handshake()

    def _first(self, found: list[Any]) -> socket.socket:
        failed: OSError = TimeoutError()
        for family, kind, protocol, _, address in found:
            self._socket = socket.socket(family, kind, protocol)
            try:
                self._go_on()
                self._socket.settimeout(CONNECT_WITHIN)
                self._socket.connect(address)
            except OSError as error:
                self._socket.close()
                failed = error
            else:
                self._socket.settimeout(WHOLE_WITHIN)
                self._go_on()
                return self._socket
        raise failed

    def _go_on(self) -> None:
        """Return if it was not cut before there was a socket to be cut."""
        if self.late.is_set():
            raise TimeoutError

    def cut(self) -> None:
        """Have whatever another thread does with it end."""
        self.late.set()
        if (open_ := self._socket) is not None:
            with suppress(OSError):
                # Of a secure one, too, what is below: its own way is not for two threads.
                socket.socket.shutdown(open_, socket.SHUT_RDWR)


def post(
    url: str, secret: bytes, name: str, now: datetime, body: bytes, *, private: bool
) -> Outcome:
    """Post a message in the form of Standard Webhooks and return how that went.

    Args:
        url: Where to.
        secret: What it is signed with.
        name: The message's id, the same whenever it is sent again.
        now: When it is sent, in UTC.
        body: The message, JSON.
        private: Whether it may be sent unencrypted, and to any address.
    """
    try:
        parts = split(url, private=private)
        connection = _Connection(parts, private=private)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "royal-rendezvous",
            "Connection": "close",
            "webhook-id": name,
            "webhook-timestamp": str(int(now.replace(tzinfo=UTC).timestamp())),
            "webhook-signature": Webhook(secret).sign(name, now, body.decode()),
        }
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        status = _send(connection, target, body, headers)
    except BadUrlError as error:
        return Outcome(None, str(error))
    except UnicodeError:
        return Outcome(None, "its name is none")
    except TimeoutError:
        return Outcome(None, "no answer in time")
    except ssl.SSLError as error:
        return Outcome(None, f"no secure connection: {error.reason}")
    except socket.gaierror:
        return Outcome(None, "its name is not known" if private else _PRIVATE)
    except (OSError, http.client.HTTPException) as error:
        return Outcome(None, f"no answer: {type(error).__name__}")
    if 200 <= status < 300:  # noqa: PLR2004
        return Outcome(status, None)
    if 300 <= status < 400:  # noqa: PLR2004
        return Outcome(status, "answered with a redirect, which is not followed")
    return Outcome(status, f"answered {status}")


def _send(connection: _Connection, target: str, body: bytes, headers: dict[str, str]) -> int:
    # A time-out of the socket starts anew with each byte.
    timer = threading.Timer(WHOLE_WITHIN, connection.cut)
    timer.daemon = True
    timer.start()
    try:
        connection.request("POST", target, body, headers)
        answer = connection.getresponse()
        answer.read(_READ)
    except (OSError, http.client.HTTPException) as error:
        if connection.late.is_set():
            raise TimeoutError from error
        raise
    finally:
        timer.cancel()
        connection.close()
    if connection.late.is_set():
        raise TimeoutError
    return answer.status
