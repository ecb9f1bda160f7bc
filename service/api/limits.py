"""Rate limits: how many requests of a kind a token, or an address without one, may make.

Counted in windows that begin with their first request. In Redis the counters are those of `limits`,
the library below Flask-Limiter. Flask-Limiter itself is left out: measured, its hooks cost each
request more than all of a bare Flask route does, and these counters a twentieth of that.
"""

import ipaddress
import logging
import math
import threading
import time
from typing import Final

from limits.storage import RedisStorage

from service import metrics
from service.engine.errors import RendezvousError
from service.settings import Rate, Settings

_REDIS_WITHIN: Final = 0.25
"""Seconds that Redis is waited for ..."""

_REDIS_AGAIN: Final = 5.0
"""... and until it is asked again once it was away."""

_SWEEP: Final = 60.0
_MOST_KNOWN: Final = 100_000

_log = logging.getLogger(__name__)


class RateLimitedError(RendezvousError):
    """There were too many requests of a kind.

    Attributes:
        rate: The rate that was exceeded.
        retry_after: Seconds until such requests are taken again, 1 or more.
    """

    code = "rate-limited"

    def __init__(self, rate: Rate, retry_after: int) -> None:
        super().__init__(f"{rate.name}: at most {rate} for each {rate.per}")
        self.rate = rate
        self.retry_after = retry_after


class Limits:
    """Counts requests; in Redis if the settings name one, else in this process alone.

    While Redis is away each process counts for itself: better than no limits, and than a service
    that is down with its Redis.

    Attributes:
        rates: The limits, by their names; none where they are off.
        shared: Whether processes count together.
    """

    def __init__(self, settings: Settings) -> None:
        """Prepare to count; nothing is connected before the first request."""
        self.rates = {rate.name: rate for rate in settings.rates}
        self.shared = bool(settings.redis_url)
        self._alone = _Counters()
        self._together = _in_redis(settings.redis_url) if settings.redis_url else None
        self._away = False
        self._ask_at = 0.0
        self._known: set[bytes] = set()

    def count(self, name: str, token: bytes | None, address: str, more: int = 0) -> None:
        """Count a request.

        A token counts for itself, whatever its address. But since anybody can make up a text that
        looks like one, it counts for its address too until it has been found good in this process.

        Args:
            name: What kind of request it is.
            token: Fingerprint of its token, None without one.
            address: Of the client.
            more: By how many a request that was counted already counts for more; it is not
                refused for it any more, but those that follow are.

        Raises:
            RateLimitedError: There were too many. This one counts, too.
        """
        if not self.rates:
            return
        if self.rates[name].per == "address":
            self._hit(name, _client(address), more)
        elif token is None:
            self._hit("anonymous", _client(address), more)
        else:
            if token not in self._known:
                self._hit("anonymous", f"tokens of {_client(address)}", more)
            self._hit(name, token.hex(), more)

    def check(self, name: str, token: bytes) -> None:
        """Return if a token may make one more request of a kind; nothing is counted.

        Raises:
            RateLimitedError: It has made as many as it may.
        """
        if self.rates:
            rate = self.rates[name]
            number, until = self._add(rate, token.hex(), 0)
            self._refuse_above(rate, number + 1, until)

    def note(self, token: bytes, *, good: bool) -> None:
        """Note whether a token was found good."""
        if not good:
            self._known.discard(token)
        elif token not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known = set()
            self._known.add(token)

    def _hit(self, name: str, whose: str, more: int) -> None:
        rate = self.rates[name]
        number, until = self._add(rate, whose, more or 1)
        if not more:
            self._refuse_above(rate, number, until)

    def _add(self, rate: Rate, whose: str, amount: int) -> tuple[int, float]:
        """Count some and return how many there are; and, if too many, when their window ends."""
        key = f"{rate.name}/{whose}"
        if self._together is None or not self._redis_is_there(self._together):
            return self._alone.hit(key, rate.seconds, amount)
        try:
            number = self._together.incr(key, rate.seconds, amount)
            until = self._together.get_expiry(key) if number >= rate.amount else 0.0
        except self._together.base_exceptions as error:
            self._lose_redis(error)
            return self._alone.hit(key, rate.seconds, amount)
        return number, until

    @staticmethod
    def _refuse_above(rate: Rate, number: int, until: float) -> None:
        if number > rate.amount:
            metrics.limited.labels(rate.name).inc()
            wait = math.ceil(until - time.time())
            raise RateLimitedError(rate, min(max(wait, 1), rate.seconds))

    def _redis_is_there(self, redis: RedisStorage) -> bool:
        if not self._away:
            return True
        now = time.monotonic()
        if now < self._ask_at:
            return False
        self._ask_at = now + _REDIS_AGAIN  # for the others meanwhile
        if not redis.check():
            return False
        self._away = False
        _log.warning("Redis is back: processes count rates together again")
        return True

    def _lose_redis(self, error: Exception) -> None:
        self._ask_at = time.monotonic() + _REDIS_AGAIN
        if not self._away:
            self._away = True
            _log.warning("Redis is away, each process counts rates for itself: %s", error)


def _in_redis(url: str) -> RedisStorage:
    # Without Redis it need not be loaded.
    from redis.backoff import NoBackoff  # noqa: PLC0415
    from redis.retry import Retry  # noqa: PLC0415

    return RedisStorage(
        url,
        key_prefix="rendezvous",
        socket_timeout=_REDIS_WITHIN,
        socket_connect_timeout=_REDIS_WITHIN,
        # Once more and at once: a connection may have broken while it was idle.
        retry=Retry(NoBackoff(), 1),  # type: ignore[arg-type] # passed on to Redis as it is
    )


def _client(address: str) -> str:
    """Return what counts as one client: an address of IPv4, a network of 2^64 of IPv6."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


class _Counters:
    """Counters of this process. The library's own would start a thread every 10 ms to tidy up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: dict[str, tuple[int, float]] = {}
        self._sweep_at = 0.0

    def hit(self, key: str, seconds: int, amount: int) -> tuple[int, float]:
        """Count some and return how many there are, and when their window ends, s since 1970."""
        now = time.time()
        with self._lock:
            if now >= self._sweep_at:
                self._sweep_at = now + _SWEEP
                self._counters = {k: one for k, one in self._counters.items() if one[1] > now}
            number, until = self._counters.get(key, (0, 0.0))
            if until <= now:
                number, until = 0, now + seconds
            self._counters[key] = number + amount, until
            return number + amount, until
