"""Where flask-smorest and webargs are bent to our contract, each in one place."""

import re
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from uuid import UUID

import flask_smorest
import marshmallow as ma
import orjson
from flask import Flask, Response, current_app, g, request
from sqlalchemy import Connection
from uuid_utils.compat import uuid7 as _uuid7
from webargs.flaskparser import FlaskParser
from werkzeug.exceptions import HTTPException

from service import tokens
from service.access import TokenInvalidError
from service.api import problems, schemas
from service.api.problems import PROBLEMS, BadRequestError
from service.engine.verify import escape
from service.engine.verify import read as read_json
from service.settings import Settings
from service.store.database import Database, Instant

T = TypeVar("T")
View = TypeVar("View", bound=Callable[..., Any])

MAX_BODY_BYTES: Final = 1 << 16
"""Longest body of a request that is no replay."""

TOKEN: Final = ("token-missing", "token-invalid", "scope-missing")
STORE: Final = ("database-unavailable",)
BODY: Final = ("malformed-json", "body-too-large", "unsupported-media-type", "invalid-request")
ALWAYS: Final = ("malformed-request", "internal-error")

_ETAG_LABEL: Final = b"royal-rendezvous/etag/1\0"
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class Parser(FlaskParser):
    """Reads requests strictly: one media type, sound JSON, no member that is not known."""

    DEFAULT_UNKNOWN_BY_LOCATION: dict[str, str | None] = {"json": None, "query": ma.RAISE}  # noqa: RUF012

    def load_json(self, req: Any, schema: ma.Schema) -> Any:  # noqa: ARG002 - webargs' own
        """Return the body's JSON value."""
        if req.mimetype != "application/json":
            raise BadRequestError(
                "unsupported-media-type", "the body must come as application/json"
            )
        data = req.get_data(cache=False)
        try:
            value = read_json(data)
            if _SURROGATE.search(data):
                orjson.dumps(value)
        except (ValueError, TypeError) as error:
            text = str(error) if isinstance(error, ValueError) else "half a surrogate pair"
            raise BadRequestError("malformed-json", text) from error
        return value

    def handle_error(self, error: ma.ValidationError, *_: Any, **__: Any) -> Any:
        """Tell what is wrong where."""
        messages = cast("dict[str, Any]", error.messages)
        found = [
            fault
            for location, tree in messages.items()
            for fault in _faults(tree, "" if location == "json" else "#query")
        ]
        detail = "; ".join(f"{at or 'the body'}: {text}" for at, text in found[:3])
        raise BadRequestError("invalid-request", detail, found) from error


def _faults(tree: Any, at: str) -> list[tuple[str, str]]:
    """Return the leaves of marshmallow's messages with JSON Pointers."""
    if isinstance(tree, dict):
        return [
            fault
            for name, branch in tree.items()
            for fault in _faults(branch, at if name == "_schema" else f"{at}/{escape(str(name))}")
        ]
    texts = tree if isinstance(tree, list) else [tree]
    return [(at, str(text)) for text in texts]


class Blueprint(flask_smorest.Blueprint):  # type: ignore[misc] # untyped
    """A group of operations that reads requests strictly."""

    ARGUMENTS_PARSER = Parser()

    if TYPE_CHECKING:  # flask-smorest is untyped

        def route(self, *_: Any, **__: Any) -> Callable[[View], View]: ...  # noqa: D102
        def doc(self, **_: Any) -> Callable[[View], View]: ...  # noqa: D102
        def arguments(self, *_: Any, **__: Any) -> Callable[[View], View]: ...  # noqa: D102
        def response(self, *_: Any, **__: Any) -> Callable[[View], View]: ...  # noqa: D102
        def alt_response(self, *_: Any, **__: Any) -> Callable[[View], View]: ...  # noqa: D102


class Api(flask_smorest.Api):  # type: ignore[misc] # untyped
    """The API, whose every error is a problem document."""

    ERROR_SCHEMA = schemas.Problem
    DEFAULT_ERROR_RESPONSE_NAME = None

    def handle_http_exception(self, error: HTTPException) -> Response:
        """Return the answer to an error of the framework."""
        return problems.from_http(error)


def fails(blueprint: Blueprint, *codes: str) -> Callable[[View], View]:
    """Document the problems that an operation can answer with, besides those that all can."""

    def decorate(view: View) -> View:
        by_status: dict[int, list[str]] = {}
        for code in (*codes, *ALWAYS):
            by_status.setdefault(PROBLEMS[code][0], []).append(code)
        for status, names in by_status.items():
            view = blueprint.alt_response(
                status,
                schema=schemas.Problem,
                content_type=problems.MEDIA_TYPE,
                description="; ".join(f"`{name}`: {PROBLEMS[name][1]}" for name in names),
            )(view)
        return view

    return decorate


def database() -> Database:
    """Return the app's database."""
    return cast("Database", current_app.extensions["database"])


def settings() -> Settings:
    """Return the app's settings."""
    return cast("Settings", current_app.extensions["settings"])


def new_id() -> UUID:
    """Return a new UUIDv7."""
    return UUID(bytes=_uuid7().bytes)


def bearer() -> bytes | None:
    """Return the fingerprint of the request's token, None without one.

    Raises:
        TokenInvalidError: The header has no token of ours; the database need not be asked.
    """
    header = request.headers.get("Authorization")
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not tokens.is_well_formed(token):
        raise TokenInvalidError("Authorization holds no token of this service")
    return tokens.fingerprint(token)


def run(act: Callable[..., T], *args: Any, transaction: bool = False, **options: Any) -> T:
    """Return what a use case gives for this request's token."""
    instant, token = Instant(), bearer()

    def once(connection: Connection) -> T:
        return act(connection, instant, token, *args, **options)

    return database().run(once, transaction=transaction)


def answer(value: Any, status: int = 200, media_type: str = "application/json") -> Response:
    """Return a value as an answer that nobody keeps."""
    response = Response(orjson.dumps(value), status=status, mimetype=media_type)
    response.headers["Cache-Control"] = "private, no-store"
    return response


def tagged(value: Any, media_type: str = "application/json", *, public: bool = False) -> Response:
    """Return a value with a strong ETag, or 304 if the client has it already."""
    body = orjson.dumps(value)
    tag = sha256(_ETAG_LABEL + body).hexdigest()[:32]
    if request.if_none_match.contains(tag):
        response = Response(status=304)
        del response.headers["Content-Type"]
    else:
        response = Response(body, mimetype=media_type)
    response.headers["ETag"] = f'"{tag}"'
    if public:
        response.headers["Cache-Control"] = "public, max-age=3600"
    else:
        response.headers["Cache-Control"] = "private, no-cache"
        response.headers["Vary"] = "Authorization"
    return response


def register_requests(app: Flask) -> None:
    """Give every request an id, the client's own where it sent a sound one."""
    sound = re.compile(r"[-_.A-Za-z0-9]{1,64}").fullmatch

    def begin() -> None:
        given = request.headers.get("X-Request-Id", "")
        g.request_id = given if sound(given) else new_id().hex

    def end(response: Response) -> Response:
        response.headers["X-Request-Id"] = g.get("request_id", "")
        return response

    app.before_request(begin)
    app.after_request(end)
