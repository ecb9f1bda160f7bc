"""Settings: what the environment gives, and what it cannot give."""

from dataclasses import fields
from pathlib import Path

import pytest

from service.settings import Settings, SettingsError, listing
from service.store.embedded import default_home

GIVEN = {
    "DATABASE_URL": "postgresql://ada:sesame@db:5432/games",
    "RENDEZVOUS_HOME": "/srv/games",
    "HOST": "::",
    "PORT": "80",
    "WORKERS": "8",
    "THREADS": "2",
    "TRUSTED_PROXIES": "1",
    "REGISTRATION": "closed",
}


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = Settings.from_environment({})

    assert settings == Settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert (settings.workers, settings.threads) == (2, 4)
    assert settings.database_url == ""
    assert settings.home_folder == default_home()
    assert settings.trusted_proxies == 0
    assert settings.registration == "open"


def test_each_variable_gives_one_setting() -> None:
    settings = Settings.from_environment({**GIVEN, "PATH": "/bin"})

    assert settings == Settings(
        database_url="postgresql://ada:sesame@db:5432/games",
        home="/srv/games",
        host="::",
        port=80,
        workers=8,
        threads=2,
        trusted_proxies=1,
        registration="closed",
    )


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
        ("REGISTRATION", "maybe", "REGISTRATION is open or closed, not 'maybe'"),
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
