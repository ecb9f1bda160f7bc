"""Puts the service together: settings, database, operations, docs."""

from threading import BoundedSemaphore
from typing import Any

import orjson
from flask import Flask
from flask.json.provider import JSONProvider

from service.api import edge, pages, problems, spec
from service.api.framework import MAX_BODY_BYTES
from service.api.limits import Limits
from service.settings import Settings
from service.signatures import SigningKeys
from service.store.database import Database


class _Json(JSONProvider):
    """JSON by orjson, as everywhere in the service."""

    def dumps(self, obj: Any, **_: Any) -> str:
        """Return the text of a value."""
        return orjson.dumps(obj).decode()

    def loads(self, s: str | bytes, **_: Any) -> Any:
        """Return the value of a text."""
        return orjson.loads(s)


def create_app(settings: Settings, database: Database, signing: SigningKeys | None = None) -> Flask:
    """Return the service as a WSGI application. Nothing is connected before the first request.

    Args:
        settings: The settings.
        database: The database.
        signing: Keys that sign results; without them replays are given out unsigned.
    """
    app = Flask("service", static_folder=None)
    app.json = _Json(app)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.url_map.strict_slashes = False
    # It would answer `//v1` by a redirection, in HTML.
    app.url_map.merge_slashes = False
    app.extensions["settings"] = settings
    app.extensions["database"] = database
    app.extensions["limits"] = Limits(settings)
    app.extensions["signing"] = signing
    # Long answers take half of the threads at most, so that moves always find one.
    app.extensions["streams"] = BoundedSemaphore(max(1, settings.threads // 2))
    edge.register(app, settings, database)
    app.extensions["contract"] = spec.publish(app)
    problems.register(app)
    app.register_blueprint(pages.pages)
    return app
