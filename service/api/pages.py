"""What is served beside the API: health, the contract, schemas, and the docs page."""

from importlib.resources import files
from pathlib import Path

import orjson
from flask import Blueprint, Response, current_app, send_from_directory

from service.api import problems
from service.api.framework import HOUR, database, signing, tagged
from service.api.problems import PROBLEMS
from service.store import schema

pages = Blueprint("pages", __name__)

_ASSETS = Path(str(files("flask_swagger_ui"))) / "dist"
_OWN = Path(str(files("service"))) / "web"
_ENGINE = Path(str(files("service.engine")))


def _json(value: object) -> Response:
    return Response(orjson.dumps(value), mimetype="application/json")


@pages.get("/healthz")
def healthz() -> Response:
    """Whether this process answers at all."""
    return _json({"status": "ok"})


@pages.get("/readyz")
def readyz() -> Response:
    """Whether requests can be served: the database is there and its schema is the one needed."""
    try:
        database().run(schema.check)
    except schema.SchemaError as error:
        return problems.answer("schema-behind", str(error))
    return _json({"status": "ok"})


@pages.get("/openapi.json")
def openapi() -> Response:
    """Return the contract."""
    return tagged(current_app.extensions["contract"], public=HOUR)


@pages.get("/schemas/replay-1.json")
def schema_of_replays() -> Response:
    """Return the JSON Schema of replay documents."""
    name = "replay-1.schema.json"
    return send_from_directory(_ENGINE, name, mimetype="application/schema+json")


@pages.get("/schemas/results-1.json")
def schema_of_results() -> Response:
    """Return the JSON Schema of results documents."""
    name = "results-1.schema.json"
    return send_from_directory(_ENGINE, name, mimetype="application/schema+json")


@pages.get("/.well-known/jwks.json")
def signing_keys() -> Response:
    """Return the public keys of signed results, those of the past included."""
    keys = signing()
    published = {"keys": []} if keys is None else keys.published
    # A new key signs at once: no cache may hide it for long.
    return tagged(published, "application/jwk-set+json", public=300)


@pages.get("/problems/<string:code>")
def problem(code: str) -> Response:
    """Return what a problem's `type` leads to."""
    if code not in PROBLEMS:
        return problems.answer("not-found", "there is no problem of this name")
    status, title = PROBLEMS[code]
    return tagged({"code": code, "status": status, "title": title}, public=HOUR)


@pages.get("/docs")
def docs() -> Response:
    """Return the docs page."""
    return send_from_directory(_OWN, "docs.html")


@pages.get("/docs/docs.js")
def docs_script() -> Response:
    """Return the script that fills the docs page."""
    return send_from_directory(_OWN, "docs.js")


@pages.get("/docs/assets/<path:name>")
def docs_asset(name: str) -> Response:
    """Return a part of Swagger UI, from its package."""
    return send_from_directory(_ASSETS, name)
