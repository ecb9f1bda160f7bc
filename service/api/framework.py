"""Where flask-smorest and webargs are bent to our contract, each in one place."""

import errno
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from hashlib import sha256
from inspect import cleandoc
from tempfile import SpooledTemporaryFile
from threading import BoundedSemaphore
from typing import Any, BinaryIO, Final, Literal, Self, TypeVar, cast
from urllib.parse import parse_qsl

import flask_smorest
import marshmallow as ma
import orjson
from flask import Response, current_app, g, request
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from service import access, view
from service.access import TokenInvalidError
from service.api import problems, schemas
from service.api.limits import Limits
from service.api.problems import PROBLEMS, BadRequestError, StreamsFullError, misfit
from service.engine.errors import RendezvousError
from service.engine.verify import escape
from service.engine.verify import read as read_json
from service.repeats import Key
from service.settings import Settings
from service.signatures import SigningKeys
from service.store.database import Database, Instant

T = TypeVar("T")
View = TypeVar("View", bound=Callable[..., Any])

MAX_BODY_BYTES: Final = 1 << 16
"""Longest body of a request that is no replay."""

_PIECE: Final = 1 << 16

_TAKEN_WITHIN: Final = 20.0
"""Seconds that a client may take for a long answer, over all its pauses ..."""

_SLOWEST: Final = 1 << 13
"""... and one more for each so many bytes of it."""

HOUR: Final = 3600
"""Seconds."""

NDJSON: Final = "application/x-ndjson"
"""Media type of a stream of JSON texts, one a line."""

_BEARER: Final = ("token-missing", "token-invalid", "scope-missing", "database-unavailable")
_BODY: Final = (*("malformed-json", "request-timeout", "body-too-large", "unsupported-media-type"),)
_BY_HEADER: Final[dict[type[ma.Schema], tuple[str, ...]]] = {
    schemas.KeyHeader: ("idempotency-key-reused",),
    schemas.MatchHeader: ("precondition-needed", "stale-version"),
}
_TOO_MANY: Final = 429
_ALWAYS: Final = ("malformed-request", "invalid-request", "rate-limited", "internal-error")
_HEADERS: Final = {401: ("WWW-Authenticate",), 429: ("Retry-After",), 503: ("Retry-After",)}

_ETAG_LABEL: Final = b"royal-rendezvous/etag/1\0"
_VERSIONED: Final = re.compile(r'(?:W/)?"([0-9]{1,9})-[0-9a-f]{32}"')
_LINE: Final = orjson.OPT_APPEND_NEWLINE | orjson.OPT_PASSTHROUGH_DATETIME
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def load_body(schema: ma.Schema) -> Any:
    """Return the request's JSON body as a schema loads it, strictly read.

    Raises:
        BadRequestError: Another media type, no sound JSON, or it does not fit the schema.
    """
    if request.mimetype != "application/json":
        raise BadRequestError("unsupported-media-type", "the body must come as application/json")
    data = read_body(MAX_BODY_BYTES)
    try:
        value = read_json(data)
        if _SURROGATE.search(data):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise BadRequestError("malformed-json", "half a surrogate pair") from error
    except RecursionError as error:
        raise BadRequestError("malformed-json", "nested too deeply") from error
    except ValueError as error:
        raise BadRequestError("malformed-json", str(error)) from error
    return _load(schema, value, "")


def read_body(limit: int) -> bytes:
    """Return the request's body.

    Raises:
        RequestEntityTooLarge: It has more bytes than the limit.
    """
    # The framework cuts a body of untold length at its limit and says nothing: ask for one more.
    request.max_content_length = limit + 1
    data = request.get_data(cache=False)
    if len(data) > limit:
        raise RequestEntityTooLarge
    return data


def charge(size: int) -> None:
    """Have a body count for its rate limit by its size, as one for each MAX_BODY_BYTES."""
    if more := size // MAX_BODY_BYTES:
        limits().count("writes", g.token or None, request.remote_addr or "", more)


def spool_body(limit: int, most_lines: int) -> BinaryIO:
    """Return the request's body whole, in a file that is at its beginning; it may be long.

    It is charged.

    A client that sends all before it reads would wait for ever for an answer that is given
    meanwhile.

    Raises:
        RequestEntityTooLarge: It has more bytes than the limit, or more lines.
    """
    request.max_content_length = limit + 1
    file = SpooledTemporaryFile(1 << 20)  # noqa: SIM115 - whoever reads it closes it
    size = lines = 0
    try:
        while piece := request.stream.read(_PIECE):
            size += len(piece)
            lines += piece.count(b"\n")
            if size > limit or lines > most_lines:
                raise RequestEntityTooLarge  # noqa: TRY301
            file.write(piece)
    except BaseException:
        file.close()
        raise
    charge(size)
    file.seek(0)
    return cast("BinaryIO", file)


def load_query(schema: ma.Schema) -> Any:
    """Return the request's query as a schema loads it; a name may stand in it once.

    Raises:
        BadRequestError: It does not fit the schema.
    """
    query: dict[str, str] = {}
    try:
        pairs = parse_qsl(request.query_string.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError as error:
        raise BadRequestError("malformed-request", "the query is not UTF-8") from error
    for name, value in pairs:
        if name in query:
            raise misfit(f"#query/{escape(name)}", "given more than once")
        query[name] = value
    return _load(schema, query, "#query")


def _load(schema: ma.Schema, value: Any, at: str) -> Any:
    try:
        return schema.load(value)
    except ma.ValidationError as error:
        found = _faults(error.messages, at)
        detail = "; ".join(f"{where or 'the body'}: {text}" for where, text in found[:3])
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
    """A group of operations."""

    def operation(
        self,
        method: str,
        path: str,
        name: str,
        summary: str,
        answer: type[ma.Schema] | None,
        *,
        status: int = 200,
        media_type: str = "application/json",
        headers: tuple[str, ...] = (),
        body: type[ma.Schema] | None = None,
        query: type[ma.Schema] | None = None,
        bearer: Literal["none", "taken", "needed"] = "none",
        needs: tuple[str, ...] = (),
        keyed: bool = False,
        matched: bool = False,
        rate: Literal["", "moves", "players"] = "",
        fails: tuple[str, ...] = (),
        **doc: Any,
    ) -> Callable[[View], View]:
        """Make a function the operation of a method and path.

        flask-smorest documents it, by its own decorators; but what they wrap around a function,
        eight layers for each request, is left off: the function is called with the loaded body or
        query, if there is one, and the path's parameters, and returns a response.

        Args:
            method: The HTTP method.
            path: The path, as Flask writes it.
            name: Its stable `operationId`.
            summary: Its summary; the function's docstring is its description.
            answer: Schema of the answer.
            status: Status of the answer.
            media_type: Media type of the answer.
            headers: Names of the answer's own headers. With `ETag` it may answer 304.
            body: Schema of the request's body.
            query: Schema of the request's query; without it the query must be empty.
            bearer: Whether it takes or needs a token.
            needs: The scopes that the token must have, as the use case demands them.
            keyed: Whether it takes an `Idempotency-Key`, which :func:`given_key` returns.
            matched: Whether it needs an `If-Match`, which :func:`seen_version` returns.
            rate: Which rate limit it counts for, unless for `reads` or, not a GET, `writes`.
            fails: Codes of problems that it can answer with, beside those that follow from the
                other arguments.
            doc: Further members of its description.
        """
        counted = rate or ("reads" if method == "GET" else "writes")
        queried = partial(load_query, query() if query else ma.Schema())
        loaded = partial(load_body, body()) if body else None
        answers = [
            self.response(
                status,
                answer,
                content_type=media_type,
                headers=_described(headers),
            )
        ]
        if body:
            answers.append(self.arguments(body))
            fails = (*fails, *_BODY)
        if query:
            answers.append(self.arguments(query, location="query"))
        for header in [schemas.KeyHeader] * keyed + [schemas.MatchHeader] * matched:
            answers.append(self.arguments(header, location="headers"))
            fails = (*fails, *_BY_HEADER[header])
        if bearer != "none":
            fails = (*fails, *_BEARER)
            token = {"token": list(needs)}
            doc["security"] = [token] if bearer == "needed" else [{}, token]
        if "ETag" in headers:
            answers.append(self.alt_response(304, description="As the client has it"))
        fails = tuple(dict.fromkeys((*fails, *_ALWAYS)))
        answers += [self._problem(number, text) for number, text in _by_status(fails, counted)]
        doc["x-problem-codes"] = list(fails)
        answers.append(self.doc(operationId=name, summary=summary, **doc))
        parameters = [
            {"in": "path", "name": parameter, **schemas.PATH_PARAMETERS[parameter]}
            for parameter in re.findall(r"<\w+:(\w+)>", path)
        ]

        def decorate(view: View) -> View:
            told = cleandoc(view.__doc__ or "") + _scopes_told(needs)
            described: Any = self.doc(description=told)(view)
            for describe in answers:
                described = describe(described)

            @wraps(view)
            def call(**path: Any) -> Any:
                _count(counted)
                given = queried() if query or request.query_string else None
                if loaded:
                    return view(loaded(), **path)
                return view(given, **path) if query else view(**path)

            about = described._apidoc  # noqa: SLF001 - the one place that knows
            about.get("arguments", {}).pop("responses", None)
            call._apidoc = about  # type: ignore[attr-defined] # noqa: SLF001
            self.add_url_rule(path, view_func=call, methods=[method], parameters=parameters)
            return view

        return decorate

    def _problem(self, status: int, description: str) -> Callable[[Any], Any]:
        documented: Callable[[Any], Any] = self.alt_response(
            status,
            schema=schemas.Problem,
            content_type=problems.MEDIA_TYPE,
            description=description,
            headers=_described(_HEADERS.get(status, ())),
        )
        return documented


def _scopes_told(scopes: tuple[str, ...]) -> str:
    if not scopes:
        return ""
    names = ", ".join(f"`{scope}`" for scope in scopes)
    return f"\n\nScope{'s' * (len(scopes) > 1)} of the token: {names}."


def _described(headers: Iterable[str]) -> dict[str, Any] | None:
    return {header: {"schema": {"type": "string"}} for header in headers} or None


def _by_status(codes: tuple[str, ...], counted: str) -> list[tuple[int, str]]:
    """Return for each status of these codes its description."""
    found: dict[int, list[str]] = {}
    for code in codes:
        found.setdefault(PROBLEMS[code][0], []).append(f"`{code}`: {PROBLEMS[code][1]}")
    found[_TOO_MANY].append(f"this counts as one of `{counted}`")
    return [(status, "; ".join(texts)) for status, texts in sorted(found.items())]


class Api(flask_smorest.Api):  # type: ignore[misc] # untyped
    """The API, whose every error is a problem document."""

    ERROR_SCHEMA = schemas.Problem
    DEFAULT_ERROR_RESPONSE_NAME = None

    def _register_pagination_header(self) -> None:
        """Leave out the schema of pages by number: no operation has them."""

    def handle_http_exception(self, error: HTTPException) -> Response:
        """Return the answer to an error of the framework."""
        return problems.from_http(error)


def database() -> Database:
    """Return the app's database."""
    return cast("Database", current_app.extensions["database"])


def settings() -> Settings:
    """Return the app's settings."""
    return cast("Settings", current_app.extensions["settings"])


def limits() -> Limits:
    """Return the app's rate limits."""
    return cast("Limits", current_app.extensions["limits"])


def _count(name: str) -> None:
    """Count this request, for its token or its client's address.

    Raises:
        RateLimitedError: There were too many.
    """
    g.token = token = access.read_bearer(request.headers.get("Authorization"))
    limits().count(name, token or None, request.remote_addr or "")


@contextmanager
def guessing(*errors: type[RendezvousError]) -> Iterator[None]:
    """Have errors by which a code is found wrong count for the request's token.

    Raises:
        RateLimitedError: It has tried so many wrong ones that it may try no more, right or wrong.
    """
    token = bearer() or b""
    limits().check("codes", token)
    try:
        yield
    except errors:
        limits().count("codes", token, request.remote_addr or "", 1)
        raise


def signing() -> SigningKeys | None:
    """Return the keys that sign results, if the app has some."""
    return cast("SigningKeys | None", current_app.extensions["signing"])


def signed(document: dict[str, Any], keys: SigningKeys | None) -> dict[str, Any]:
    """Return a line of replays, signed if it is one whose game has ended and there are keys."""
    return keys.signed(document) if keys and "broken" not in document else document


def bearer() -> bytes | None:
    """Return the fingerprint of the request's token, None without one.

    Raises:
        TokenInvalidError: The header has no token of ours; the database need not be asked.
    """
    return access.sound(g.token)


def given_key(operation: str, body: bytes) -> Key | None:
    """Return the request's `Idempotency-Key`, None without one.

    Args:
        operation: Its `operationId`.
        body: The body, in a form that is the same for all bodies that mean the same.

    Raises:
        BadRequestError: The header is no key.
    """
    text = request.headers.get(schemas.KEY_HEADER)
    if text is None:
        return None
    _load(schemas.KeyHeader(), {schemas.KEY_HEADER: text}, "#header")
    return Key.of(text, operation, body)


def run(act: Callable[..., T], *args: Any, transaction: bool = False, **options: Any) -> T:
    """Return what a use case gives for this request's token."""
    instant, token = Instant(), bearer()
    try:
        found = database().run(
            lambda connection: act(connection, instant, token, *args, **options),
            transaction=transaction,
        )
    except TokenInvalidError:
        limits().note(token or b"", good=False)
        raise
    finally:
        g.player = instant.player
    if token is not None:
        limits().note(token, good=True)
    return found


def answer(value: Any, status: int = 200, media_type: str = "application/json") -> Response:
    """Return a value as an answer that nobody keeps."""
    response = Response(orjson.dumps(value), status=status, mimetype=media_type)
    response.headers["Cache-Control"] = "private, no-store"
    return response


def seen_version() -> int:
    """Return the version that the client saw of what it changes, from `If-Match`.

    Raises:
        BadRequestError: The header is missing, or holds no ETag of ours.
    """
    text = request.headers.get("If-Match")
    if text is None:
        raise BadRequestError(
            "precondition-needed", "If-Match is needed: the ETag of what you saw of it"
        )
    found = _VERSIONED.fullmatch(text.strip())
    if found is None:
        raise misfit("#header/If-Match", "not an ETag that this service gave")
    return int(found[1])


class Turn:
    """A place among the long answers that may be given at once, each of which holds a thread.

    Taken before anything is done for the answer, and given to :func:`lines` or :func:`long_text`.
    Where no answer comes of it, as the end of a `with` finds by an error, it is ended.
    """

    def __init__(self) -> None:
        """Take one.

        Raises:
            StreamsFullError: All are taken.
        """
        places = cast("BoundedSemaphore", current_app.extensions["streams"])
        if not places.acquire(blocking=False):
            raise StreamsFullError("all threads for long answers are busy")
        self._left = [places]

    def __enter__(self) -> Self:
        """Have it ended by an error."""
        return self

    def __exit__(self, error: object, *_: object) -> None:
        """End it if there was an error."""
        if error is not None:
            self.end()

    def end(self) -> None:
        """Leave it to others; once, however often this is called."""
        with suppress(IndexError):
            self._left.pop().release()


def lines(
    turn: Turn, values: Iterator[Any], closing: Callable[[], Mapping[str, Any]] = dict
) -> Response:
    """Return values as a stream of JSON texts, one a line, the last of which counts the others.

    What cannot be read any more breaks the stream off without that line.

    Args:
        turn: Ended with the answer.
        values: What the lines are made of.
        closing: Gives further members of the last line, once the others are given.
    """

    def rendered() -> Iterator[bytes]:
        count = 0
        for count, value in enumerate(values, 1):  # noqa: B007
            yield orjson.dumps(value, default=_plain, option=_LINE)
        end = {"end": True, "count": count, **closing()}
        yield orjson.dumps(end, default=_plain, option=_LINE)

    return _streamed(turn, rendered(), NDJSON)


def long_text(turn: Turn, parts: Sequence[bytes], media_type: str) -> Response:
    """Return a text that may be long, with its length: one that is broken off is seen to be.

    Args:
        turn: Ended with the answer.
        parts: Of the text.
        media_type: Its media type.
    """
    pieces = (
        part[begin : begin + _PIECE] for part in parts for begin in range(0, len(part), _PIECE)
    )
    response = _streamed(turn, pieces, media_type)
    response.content_length = sum(map(len, parts))
    return response


def _streamed(turn: Turn, pieces: Iterator[bytes], media_type: str) -> Response:
    """Return a long answer, which ends with its connection if it is taken too slowly."""

    def given() -> Iterator[bytes]:
        left = _TAKEN_WITHIN
        try:
            for piece in pieces:
                if left < 0:
                    # What the server, too, finds of a client that takes nothing.
                    raise BlockingIOError(errno.EAGAIN, "the answer is taken too slowly")
                began = time.monotonic()
                yield piece
                left += began - time.monotonic() + len(piece) / _SLOWEST
        finally:
            turn.end()

    response = Response(given(), mimetype=media_type)
    response.call_on_close(turn.end)
    response.headers["Cache-Control"] = "private, no-store"
    return response


def _plain(value: Any) -> str:
    """Return the text of an instant, or of bytes."""
    return value.hex() if isinstance(value, bytes) else view.instant(value)


def tagged(
    value: Any, media_type: str = "application/json", *, version: int | None = None, public: int = 0
) -> Response:
    """Return a value with a strong ETag, or 304 if the client has it already.

    Args:
        value: The value.
        media_type: Its media type.
        version: Its version, where :func:`seen_version` is to read it from the ETag.
        public: Seconds for which anybody may keep it; 0 where it depends on who asks.
    """
    body = orjson.dumps(value)
    tag = sha256(_ETAG_LABEL + body).hexdigest()[:32]
    if version is not None:
        tag = f"{version}-{tag}"
    if request.if_none_match.contains_weak(tag):
        response = Response(status=304)
        del response.headers["Content-Type"]
    else:
        response = Response(body, mimetype=media_type)
    response.headers["ETag"] = f'"{tag}"'
    if public:
        response.headers["Cache-Control"] = f"public, max-age={public}"
    else:
        response.headers["Cache-Control"] = "private, no-cache"
        response.headers["Vary"] = "Authorization"
    return response
