"""Settings. They come from the environment only, and this is the list of them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Self

from service.store.embedded import default_home

_LAST_PORT: Final = 65535


class SettingsError(ValueError):
    """A variable of the environment has a value that cannot be."""


def _setting(variable: str, about: str, default: Any) -> Any:
    return field(default=default, metadata={"variable": variable, "about": about})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set, each by the variable of the environment named with it."""

    database_url: str = _setting(
        "DATABASE_URL", "Postgres to use, 15 or later; without it an embedded one is run", ""
    )
    home: str = _setting("RENDEZVOUS_HOME", "folder of the embedded database", str(default_home()))
    host: str = _setting("HOST", "address to listen on", "127.0.0.1")
    port: int = _setting("PORT", "port to listen on; 0 for any that is free", 8000)
    workers: int = _setting("WORKERS", "processes that answer requests", 2)
    threads: int = _setting("THREADS", "threads of each, and its most database connections", 4)
    trusted_proxies: int = _setting(
        "TRUSTED_PROXIES", "proxies in front whose X-Forwarded-* headers are believed", 0
    )
    registration: str = _setting(
        "REGISTRATION", "who may make players: open, or closed for nobody", "open"
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
        if settings.port > _LAST_PORT:
            raise SettingsError(f"PORT is at most {_LAST_PORT}, not {settings.port}")
        if settings.registration not in {"open", "closed"}:
            raise SettingsError(f"REGISTRATION is open or closed, not {settings.registration!r}")
        if min(settings.workers, settings.threads) < 1:
            raise SettingsError("WORKERS and THREADS are 1 or more")
        return settings

    @property
    def home_folder(self) -> Path:
        """The folder of the embedded database."""
        return Path(self.home).expanduser()


def _number(variable: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise SettingsError(f"{variable} is a number, not {text!r}") from None
    if number < 0:
        raise SettingsError(f"{variable} is 0 or more, not {number}")
    return number


def listing() -> str:
    """Return the settings as lines for a person: variable, meaning, default."""
    return "\n".join(
        f"{one.metadata['variable']:<17}{one.metadata['about']} [{one.default or 'none'}]"
        for one in fields(Settings)
    )
