"""Settings: what the environment gives, and what it cannot give."""

from dataclasses import fields
from pathlib import Path

import pytest

from service.settings import Rate, Settings, SettingsError, listing
from service.store.embedded import default_home

GIVEN = {
    "DATABASE_URL": "postgresql://ada:sesame@db:5432/games",
    "RENDEZVOUS_HOME": "/srv/games",
    "HOST": "::",
    "PORT": "80",
    "WORKERS": "8",
    "THREADS": "2",
    "WORKER": "off",
    "WEBHOOK_PRIVATE": "allow",
    "TRUSTED_PROXIES": "1",
    "REGISTRATION": "closed",
    "RATE_LIMITS": "off",
    "RATE_MOVES": "5 per second",
    "RATE_READS": "60 per minute",
    "RATE_WRITES": "30 per 10 seconds",
    "RATE_CODES": "3 per day",
    "RATE_PLAYERS": "1 per hour",
    "RATE_ANONYMOUS": "900 per 2 minutes",
    "REDIS_URL": "rediss://:sesame@cache:6380/1",
    "CORS_ORIGINS": "https://play.example http://localhost:5173",
    "HSTS_SECONDS": "31536000",
    "LOG": "json",
    "METRICS_PORT": "9090",
    "METRICS_HOST": "::1",
    "SIGNING_KEYS": "/srv/keys.json",
    "STREAM_PORT": "81",
    "STREAM_URL": "https://live.example.org/",
    "STREAMS": "100",
    "STREAMS_PER_TOKEN": "3",
    "DATABASE_PREPARE": "off",
}

ORIGINS = "CORS_ORIGINS are * or https://host:port"
FORM = "of the form `600 per minute` or `100 per 10 seconds`, a day at most"


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = Settings.from_environment({})

    assert settings == Settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert (settings.workers, settings.threads) == (2, 4)
    assert settings.database_url == ""
    assert settings.home_folder == default_home()
    assert settings.trusted_proxies == 0
    assert settings.registration == "open"
    assert settings.events_at == "http://127.0.0.1:8001"
    assert (settings.streams, settings.streams_per_token) == (5000, 20)
    assert settings.prepares


def test_each_variable_gives_one_setting() -> None:
    settings = Settings.from_environment({**GIVEN, "PATH": "/bin"})

    assert settings == Settings(
        database_url="postgresql://ada:sesame@db:5432/games",
        home="/srv/games",
        host="::",
        port=80,
        workers=8,
        threads=2,
        worker="off",
        webhook_private="allow",
        trusted_proxies=1,
        registration="closed",
        rate_limits="off",
        rate_moves="5 per second",
        rate_reads="60 per minute",
        rate_writes="30 per 10 seconds",
        rate_codes="3 per day",
        rate_players="1 per hour",
        rate_anonymous="900 per 2 minutes",
        redis_url="rediss://:sesame@cache:6380/1",
        cors_origins="https://play.example http://localhost:5173",
        hsts_seconds=31536000,
        log="json",
        metrics_port=9090,
        metrics_host="::1",
        signing_keys="/srv/keys.json",
        stream_port=81,
        stream_url="https://live.example.org/",
        streams=100,
        streams_per_token=3,
        database_prepare="off",
    )


def test_keys_are_beside_the_embedded_database_unless_they_are_named() -> None:
    own, other = Settings(home="/srv/games"), Settings(database_url="postgresql:///games")

    assert own.signing_keys_file == Path("/srv/games/signing-keys.json")
    assert other.signing_keys_file is None
    assert Settings(signing_keys="/srv/k.json").signing_keys_file == Path("/srv/k.json")


@pytest.mark.parametrize(
    ("given", "at"),
    [
        ({"HOST": "::", "STREAM_PORT": "9"}, "http://[::1]:9"),
        ({"HOST": "0.0.0.0"}, "http://127.0.0.1:8001"),  # noqa: S104
        ({"HOST": "games.example.org"}, "http://games.example.org:8001"),
        ({"HOST": "::", "STREAM_URL": "https://a.example/live/"}, "https://a.example/live"),
    ],
)
def test_live_events_are_where_clients_find_them(given: dict[str, str], at: str) -> None:
    assert Settings.from_environment(given).events_at == at


@pytest.mark.parametrize("variable", GIVEN)
def test_a_variable_that_is_empty_is_as_if_absent(variable: str) -> None:
    for nothing in ("", "  "):
        assert Settings.from_environment({variable: nothing}) == Settings()


def test_space_around_a_value_is_left_out() -> None:
    settings = Settings.from_environment({"PORT": " 81 ", "REGISTRATION": "closed\n"})

    assert (settings.port, settings.registration) == (81, "closed")


def test_any_free_port_can_be_asked_for() -> None:
    assert Settings.from_environment({"PORT": "0"}).port == 0


def test_the_home_may_be_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")

    assert Settings(home="~/games").home_folder == Path("/home/ada/games")


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("PORT", "http", "PORT is a number, not 'http'"),
        ("PORT", "-1", "PORT is 0 or more, not -1"),
        ("PORT", "65536", "PORT is at most 65535, not 65536"),
        ("PORT", "80.5", "PORT is a number, not '80.5'"),
        ("WORKERS", "0", "WORKERS and THREADS are 1 or more"),
        ("WORKERS", "two", "WORKERS is a number, not 'two'"),
        ("THREADS", "0", "WORKERS and THREADS are 1 or more"),
        ("TRUSTED_PROXIES", "-2", "TRUSTED_PROXIES is 0 or more, not -2"),
        ("STREAM_PORT", "65536", "STREAM_PORT is at most 65535, not 65536"),
        ("STREAM_URL", "//a", "STREAM_URL begins with http:// or https://, not '//a'"),
        ("STREAM_URL", "http://", "STREAM_URL begins with http:// or https://, not 'http://'"),
        ("DATABASE_PREPARE", "no", "DATABASE_PREPARE is on or off, not 'no'"),
        ("REGISTRATION", "maybe", "REGISTRATION is open or closed, not 'maybe'"),
        ("RATE_LIMITS", "none", "RATE_LIMITS is on or off, not 'none'"),
        ("RATE_MOVES", "0 per second", f"RATE_MOVES is {FORM}, not '0 per second'"),
        ("RATE_READS", "60", f"RATE_READS is {FORM}, not '60'"),
        ("RATE_WRITES", "60 per fortnight", f"RATE_WRITES is {FORM}, not '60 per fortnight'"),
        ("RATE_PLAYERS", "1 per 2 days", f"RATE_PLAYERS is {FORM}, not '1 per 2 days'"),
        ("REDIS_URL", "sesame", "REDIS_URL is of the form redis://user:password@host:6379/0"),
        ("LOG", "yes", "LOG is json or off, not 'yes'"),
        ("METRICS_PORT", "70000", "METRICS_PORT is at most 65535, not 70000"),
        ("CORS_ORIGINS", "play.example", f"{ORIGINS}, not 'play.example'"),
        (
            "CORS_ORIGINS",
            "https://a.example https://b.example/",
            f"{ORIGINS}, not 'https://b.example/'",
        ),
        ("CORS_ORIGINS", "https://.*", f"{ORIGINS}, not 'https://.*'"),
        ("CORS_ORIGINS", "null", f"{ORIGINS}, not 'null'"),
        ("REGISTRATION", "Open", "REGISTRATION is open or closed, not 'Open'"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(variable: str, value: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment({variable: value})

    assert str(caught.value) == told


def test_the_listing_tells_every_setting_with_its_default() -> None:
    lines = {line.split()[0]: line for line in listing().splitlines()}

    assert list(lines) == [one.metadata["variable"] for one in fields(Settings)]
    assert lines["PORT"].endswith("[8000]")
    assert lines["DATABASE_URL"].endswith("[none]")
    assert lines["RENDEZVOUS_HOME"].endswith(f"[{default_home()}]")


def test_rates_are_read_and_may_be_off() -> None:
    rates = {
        one.name: one for one in Settings.from_environment({**GIVEN, "RATE_LIMITS": "on"}).rates
    }

    assert rates == {
        "moves": Rate("moves", 5, 1),
        "reads": Rate("reads", 60, 60),
        "writes": Rate("writes", 30, 10),
        "codes": Rate("codes", 3, 86400),
        "players": Rate("players", 1, 3600),
        "anonymous": Rate("anonymous", 900, 120),
    }
    assert {one.name for one in rates.values() if one.per == "address"} == {"players", "anonymous"}
    assert Settings.from_environment(GIVEN).rates == ()
