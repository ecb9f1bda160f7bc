"""Settings. They come from the environment only, and this is the list of them."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Self

from service.store.embedded import default_home

_LAST_PORT: Final = 65535
_SWITCH: Final = ("on", "off")
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


RATES: Final = ("moves", "reads", "writes", "codes", "players", "anonymous")
"""What is limited."""
_RATE: Final = re.compile(r"([1-9]\d{0,8}) per (?:([1-9]\d{0,3}) )?(second|minute|hour|day)s?")
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_ORIGIN: Final = re.compile(r"[*]|https?://([a-z0-9.-]+|\[[0-9a-f:]+\])(:\d{1,5})?")
LONGEST_WINDOW: Final = 86400
"""Most seconds in which requests are counted together."""


class SettingsError(ValueError):
    """A variable of the environment has a value that cannot be."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How many requests of a kind are taken in how long.

    Attributes:
        name: What kind they are.
        amount: Most requests ...
        seconds: ... in so many seconds, at most LONGEST_WINDOW.
    """

    name: str
    amount: int
    seconds: int

    @property
    def per(self) -> str:
        """For whom they are counted: `token` or `address`."""
        return "address" if self.name in {"players", "anonymous"} else "token"

    def __str__(self) -> str:
        return f"{self.amount} in {self.seconds} s"


def _setting(variable: str, about: str, default: Any, words: tuple[str, ...] = ()) -> Any:
    """Return a field for a setting; with words, it is one of them."""
    return field(default=default, metadata={"variable": variable, "about": about, "words": words})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set, each by the variable of the environment named with it."""

    database_url: str = _setting(
        "DATABASE_URL", "Postgres to use, 15 or later; without it an embedded one is run", ""
    )
    database_prepare: str = _setting(
        "DATABASE_PREPARE", "prepared statements: on, or off for an older PgBouncer", "on", _SWITCH
    )
    home: str = _setting("RENDEZVOUS_HOME", "folder of the embedded database", str(default_home()))
    host: str = _setting("HOST", "address to listen on", "127.0.0.1")
    port: int = _setting("PORT", "port to listen on; 0 for any that is free", 8000)
    stream_port: int = _setting(
        "STREAM_PORT", "port of the live events; 0 for any that is free", 8001
    )
    stream_url: str = _setting(
        "STREAM_URL", "where clients find that port, if not at HOST and STREAM_PORT", ""
    )
    streams: int = _setting("STREAMS", "most streams of events at once", 5000)
    streams_per_token: int = _setting("STREAMS_PER_TOKEN", "and most of one token", 20)
    workers: int = _setting("WORKERS", "processes that answer requests", 2)
    threads: int = _setting("THREADS", "threads of each, and its most database connections", 4)
    worker: str = _setting(
        "WORKER", "the process that does what is due when nobody asks: on or off", "on", _SWITCH
    )
    webhook_private: str = _setting(
        "WEBHOOK_PRIVATE",
        "webhooks by plain http and to private addresses: allow or refuse",
        "refuse",
        ("allow", "refuse"),
    )
    trusted_proxies: int = _setting(
        "TRUSTED_PROXIES", "proxies in front whose X-Forwarded-* headers are believed", 0
    )
    registration: str = _setting(
        "REGISTRATION",
        "who may make players: open, or closed for nobody",
        "open",
        ("open", "closed"),
    )
    rate_limits: str = _setting(
        "RATE_LIMITS", "whether requests are limited as follows: on or off", "on", _SWITCH
    )
    rate_moves: str = _setting(
        "RATE_MOVES", "moves, undos, resignations of a token", "10000 per 10 seconds"
    )
    rate_reads: str = _setting("RATE_READS", "what else a token asks", "5000 per 10 seconds")
    rate_writes: str = _setting("RATE_WRITES", "what else a token does", "1200 per minute")
    rate_codes: str = _setting("RATE_CODES", "wrong codes that a token tries", "20 per 10 minutes")
    rate_players: str = _setting("RATE_PLAYERS", "players made from an address", "300 per hour")
    rate_anonymous: str = _setting(
        "RATE_ANONYMOUS", "requests of an address without a token", "1200 per minute"
    )
    redis_url: str = _setting(
        "REDIS_URL", "Redis in which all processes count together; without it each by itself", ""
    )

    cors_origins: str = _setting(
        "CORS_ORIGINS", "origins whose pages may ask, separated by spaces; * for all", ""
    )
    hsts_seconds: int = _setting(
        "HSTS_SECONDS", "how long browsers must come by HTTPS; 0 where it is not HTTPS", 0
    )
    log: str = _setting(
        "LOG", "of requests, on standard error: json, or off", "off", ("json", "off")
    )
    metrics_port: int = _setting("METRICS_PORT", "port of /metrics for Prometheus; 0 for none", 0)
    metrics_host: str = _setting("METRICS_HOST", "address of that port", "127.0.0.1")
    signing_keys: str = _setting(
        "SIGNING_KEYS",
        "file of keys that sign results; needed with DATABASE_URL, else made in RENDEZVOUS_HOME",
        "",
    )

    games_in_play: int = _setting(
        "GAMES_IN_PLAY", "most games that a player may have in play at once; 0 for any number", 1000
    )
    retention_days: int = _setting(
        "RETENTION_DAYS",
        "age in days at which `rendezvous tidy` deletes players that never came back; 0 for never",
        365,
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Return the settings that these variables give, defaults where they are absent or empty.

        Raises:
            SettingsError: A value is no number where one is needed, or none of the allowed words.
        """
        given: dict[str, Any] = {}
        for one in fields(cls):
            text = environment.get(one.metadata["variable"], "").strip()
            if text:
                given[one.name] = (
                    _number(one.metadata["variable"], text) if one.type is int else text
                )
        settings = cls(**given)
        settings._check()
        return settings

    def _check(self) -> None:
        for one in fields(self):
            words, value = one.metadata["words"], getattr(self, one.name)
            if words and value not in words:
                wanted = " or ".join(words)
                raise SettingsError(f"{one.metadata['variable']} is {wanted}, not {value!r}")
        for variable, port in (
            ("PORT", self.port),
            ("STREAM_PORT", self.stream_port),
            ("METRICS_PORT", self.metrics_port),
        ):
            if port > _LAST_PORT:
                raise SettingsError(f"{variable} is at most {_LAST_PORT}, not {port}")
        if self.stream_url and not re.fullmatch(r"https?://[^\s?#]+", self.stream_url):
            raise SettingsError(
                f"STREAM_URL begins with http:// or https://, not {self.stream_url!r}"
            )
        if min(self.workers, self.threads) < 1:
            raise SettingsError("WORKERS and THREADS are 1 or more")
        if self.redis_url and not re.match("rediss?://|redis[+]unix://", self.redis_url):
            # It is not told back: it may hold a password.
            raise SettingsError("REDIS_URL is of the form redis://user:password@host:6379/0")
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise SettingsError(f"CORS_ORIGINS are * or https://host:port, not {origin!r}")
        self.rates  # noqa: B018 - told now if one is none

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins whose pages may ask; `*` is any."""
        return tuple(self.cors_origins.split())

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The limits on requests; none where they are off.

        Raises:
            SettingsError: One is no rate.
        """
        if self.rate_limits == "off":
            return ()
        return tuple(_rate(name, getattr(self, f"rate_{name}")) for name in RATES)

    @property
    def reached_at(self) -> str:
        """The host by which this machine reaches the address listened on, as URLs write it."""
        host = _LOOPBACK.get(self.host, self.host)
        return f"[{host}]" if ":" in host else host

    @property
    def events_at(self) -> str:
        """The URL of the live events, without the path that begins with ``/v1``."""
        return self.stream_url.rstrip("/") or f"http://{self.reached_at}:{self.stream_port}"

    @property
    def prepares(self) -> bool:
        """Whether the database may keep statements prepared."""
        return self.database_prepare == "on"

    @property
    def home_folder(self) -> Path:
        """The folder of the embedded database."""
        return Path(self.home).expanduser()

    @property
    def signing_keys_file(self) -> Path | None:
        """The file of keys; None where none is named and the database is not ours to keep it by.

        It is beside the embedded database's data, never within: Postgres's account owns those.
        """
        if self.signing_keys:
            return Path(self.signing_keys).expanduser()
        return None if self.database_url else self.home_folder / "signing-keys.json"


def _number(variable: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise SettingsError(f"{variable} is a number, not {text!r}") from None
    if number < 0:
        raise SettingsError(f"{variable} is 0 or more, not {number}")
    return number


def _rate(name: str, text: str) -> Rate:
    found = _RATE.fullmatch(text)
    seconds = int(found[2] or 1) * _SECONDS[found[3]] if found else 0
    if not found or seconds > LONGEST_WINDOW:
        form = "of the form `600 per minute` or `100 per 10 seconds`, a day at most"
        raise SettingsError(f"RATE_{name.upper()} is {form}, not {text!r}")
    return Rate(name, int(found[1]), seconds)


def listing() -> str:
    """Return the settings as lines for a person: variable, meaning, default."""
    return "\n".join(
        f"{one.metadata['variable']:<19}{one.metadata['about']} [{one.default or 'none'}]"
        for one in fields(Settings)
    )
