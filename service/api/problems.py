"""Problem documents (RFC 9457): the one table of codes, and how each error becomes an answer."""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import orjson
from flask import Flask, Response, current_app, g, has_app_context
from werkzeug.exceptions import HTTPException

from service import tokens, view
from service.access import ScopeMissingError
from service.api.limits import RateLimitedError
from service.engine.errors import (
    AmbiguousMoveError,
    BadSeedError,
    IllegalMoveError,
    RendezvousError,
)
from service.games import ActRefusedError, DeadlinePassedError, SeedNeededError, StalePlyError
from service.replays import ReplayRefusedError
from service.store.database import RETRY_AFTER, DatabaseUnavailableError
from service.tournaments.model import BadTournamentError

MEDIA_TYPE: Final = "application/problem+json"

PROBLEMS: Final[dict[str, tuple[int, str]]] = {
    "malformed-request": (400, "The request cannot be read"),
    "malformed-json": (400, "The body is not JSON"),
    "token-missing": (401, "A token is needed"),
    "token-invalid": (401, "The token is not valid"),
    "scope-missing": (403, "The token is not good for this"),
    "registration-closed": (403, "No new players are taken"),
    "role-missing": (403, "This is for others of the tournament's hosts"),
    "invite-invalid": (403, "The code is not good for this tournament"),
    "not-found": (404, "There is no such thing, or not for you"),
    "ply-not-reached": (404, "The game has no such ply"),
    "method-not-allowed": (405, "The method is not allowed here"),
    "request-timeout": (408, "The request did not come in time"),
    "illegal-move": (409, "The move is not legal"),
    "ambiguous-move": (409, "The move fits more than one foundation"),
    "card-mismatch": (409, "Another card would move"),
    "batch-past-hidden-card": (409, "A batch ends where a hidden card is turned up"),
    "stale-ply": (409, "The game is at another ply"),
    "imports-full": (409, "No more replays can be imported"),
    "game-over": (409, "The game has ended"),
    "undo-off": (409, "Nothing can be taken back in this game"),
    "nothing-to-undo": (409, "There is no move to take back"),
    "too-many-games": (409, "There are too many games in play"),
    "wrong-state": (409, "The tournament is not where this can be done"),
    "not-verified": (409, "Not all attempts are verified"),
    "entry-closed": (409, "Nobody can enter now"),
    "tournament-full": (409, "All places are taken"),
    "not-entered": (409, "There is no entry that may do this"),
    "deal-closed": (409, "The deal cannot be played now"),
    "not-through": (409, "The entry does not play this round"),
    "attempts-used": (409, "All attempts at the deal are used"),
    "too-many-webhooks": (409, "The tournament has as many webhooks as it may"),
    "deadline-passed": (409, "The game's deadline has passed"),
    "already-entered": (409, "There is an entry of theirs already"),
    "too-many-invites": (409, "There are too many codes"),
    "too-many-roles": (409, "There are too many who host it"),
    "too-many-tokens": (409, "There are too many tokens"),
    "log-full": (409, "The log is full"),
    "stale-version": (412, "It has changed since it was seen"),
    "body-too-large": (413, "The body is too large"),
    "unsupported-media-type": (415, "The body's media type is not taken here"),
    "wrong-server": (421, "This is served at another address"),
    "invalid-request": (422, "The request does not fit the schema"),
    "unknown-ruleset": (422, "There is no such ruleset"),
    "unknown-deal-spec": (422, "There is no such deal spec"),
    "bad-seed": (422, "The text is not a seed of this deal spec"),
    "seed-needed": (422, "This deal spec needs a seed"),
    "bad-position": (422, "The text is not a position"),
    "unknown-cursor": (422, "The cursor is not one of ours"),
    "replay-refused": (422, "The replay is not valid, or its game not finished"),
    "idempotency-key-reused": (422, "The key was sent with another request"),
    "bad-tournament": (422, "The tournament makes no sense"),
    "bad-ruling": (422, "The ruling is not told whole"),
    "precondition-needed": (428, "If-Match is needed"),
    "rate-limited": (429, "Too many requests"),
    "too-many-streams": (429, "This token has as many streams as it may"),
    "internal-error": (500, "Something went wrong here"),
    "broken-log": (500, "A stored game is damaged"),
    "schema-behind": (503, "The database's schema is not the one needed"),
    "streams-full": (503, "There are as many streams as there can be"),
    "database-unavailable": (503, "The database cannot be reached"),
}
"""Status and title of every problem, by its code."""

_BY_STATUS: Final = {
    400: "malformed-request",
    404: "not-found",
    405: "method-not-allowed",
    408: "request-timeout",
    413: "body-too-large",
    415: "unsupported-media-type",
}
_POINTERS: Final = {
    "bad-seed": "/deal/seed",
    "seed-needed": "/deal/seed",
}

_log = logging.getLogger(__name__)

# What begins as a token does is never told back, nor logged.
_REQUEST_ID: Final = re.compile(rf"(?!{tokens.PREFIX})[-_.A-Za-z0-9]{{1,64}}")


def request_id(given: str) -> str:
    """Return the id of a request: what its client gave, if that will do, or else a new one."""
    return given if _REQUEST_ID.fullmatch(given) else os.urandom(16).hex()


class UnknownCursorError(RendezvousError):
    """A list was asked for from a place that is none."""

    code = "unknown-cursor"


class RegistrationClosedError(RendezvousError):
    """The host takes no new players."""

    code = "registration-closed"


class BadRequestError(RendezvousError):
    """The request does not fit; told with one of the codes of 4xx.

    Attributes:
        errors: What is wrong where: pairs of a JSON Pointer and a sentence.
    """

    def __init__(self, code: str, detail: str, errors: list[tuple[str, str]] | None = None) -> None:
        super().__init__(detail)
        self.code = code  # type: ignore[misc]
        self.errors = errors or []


def misfit(pointer: str, what: str) -> BadRequestError:
    """Return the error that one thing does not fit the schema.

    Args:
        pointer: Where it is in the request.
        what: What is wrong with it.
    """
    return BadRequestError("invalid-request", f"{pointer}: {what}", [(pointer, what)])


class TryLaterError(RendezvousError):
    """It may be granted later.

    Attributes:
        retry_after: Seconds after which to ask again.
    """

    retry_after: ClassVar[int] = 5


class TooManyStreamsError(TryLaterError):
    """The token has as many streams as it may."""

    code = "too-many-streams"


class StreamsFullError(TryLaterError):
    """There are as many streams as there can be."""

    code = "streams-full"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is told of an error, whoever answers it.

    Attributes:
        code: One of PROBLEMS.
        detail: One sentence on this very case.
        members: Further members of the document.
        headers: Further headers of the answer.
    """

    code: str
    detail: str
    members: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def status(self) -> int:
        """The status of the answer."""
        return PROBLEMS[self.code][0]

    def document(self, request_id: str) -> bytes:
        """Return the problem document."""
        status, title = PROBLEMS[self.code]
        return orjson.dumps(
            {
                "type": f"/problems/{self.code}",
                "title": title,
                "status": status,
                "detail": self.detail,
                "code": self.code,
                "request_id": request_id,
                **self.members,
            }
        )


def answer(
    code: str, detail: str, members: Mapping[str, Any] = {}, headers: Mapping[str, str] = {}
) -> Response:
    """Return a problem as an answer; see :class:`Problem`."""
    return _answer(Problem(code, detail, members, headers))


def _answer(problem: Problem) -> Response:
    g.problem = problem.code
    body = problem.document(g.get("request_id", ""))
    response = Response(body, status=problem.status, mimetype=MEDIA_TYPE)
    response.headers.update(problem.headers)
    response.headers["Cache-Control"] = "no-store"
    return response


def register(app: Flask) -> None:
    """Have every error of this app answered by a problem document."""
    app.register_error_handler(RendezvousError, from_error)
    app.register_error_handler(ActRefusedError, _from_refusal)
    app.register_error_handler(ReplayRefusedError, _from_verdict)
    app.register_error_handler(HTTPException, from_http)
    app.register_error_handler(Exception, _from_fault)


def from_error(error: RendezvousError) -> Response:
    """Return the answer to an error of ours."""
    return _answer(explain(error))


def explain(error: RendezvousError) -> Problem:
    """Return what is told of an error of ours; what is our fault is also logged."""
    headers: dict[str, str] = {}
    code, detail = error.code, str(error)
    status = PROBLEMS[code][0]
    if status == 401:  # noqa: PLR2004
        headers["WWW-Authenticate"] = 'Bearer realm="royal-rendezvous"'
    if isinstance(error, DatabaseUnavailableError):
        # In an outage every request comes here: one line each.
        _log.warning("%s: %s", code, error)
        detail = PROBLEMS[code][1]
    elif status >= 500 and not isinstance(error, TryLaterError):  # noqa: PLR2004
        number = g.get("request_id", "-") if has_app_context() else "-"
        _log.error("%s in request %s", code, number, exc_info=error)
        detail = PROBLEMS[code][1]
    if isinstance(error, DatabaseUnavailableError):
        headers["Retry-After"] = str(RETRY_AFTER)
    elif isinstance(error, RateLimitedError | TryLaterError):
        headers["Retry-After"] = str(error.retry_after)
    return Problem(code, detail, _members(error, detail), headers)


def _members(error: RendezvousError, detail: str) -> dict[str, Any]:
    """Return what else is told of an error of ours."""
    match error:
        case DatabaseUnavailableError():
            return {"retry_after": RETRY_AFTER}
        case RateLimitedError() | TryLaterError():
            return {"retry_after": error.retry_after}
        case ScopeMissingError():
            return {"required_scope": error.scope}
        case StalePlyError() | DeadlinePassedError():
            settings = current_app.extensions["settings"]
            shown = view.game(error.state, settings.events_at)
            return {"ply": error.state.game.ply, "game": shown}
        case BadRequestError() if error.errors:
            return {"errors": [{"pointer": at, "detail": text} for at, text in error.errors]}
        case BadTournamentError():
            return {"errors": [{"pointer": error.pointer, "detail": detail}]}
        case BadSeedError() | SeedNeededError():
            return {"errors": [{"pointer": _POINTERS[error.code], "detail": detail}]}
    return {}


def _from_verdict(refused: ReplayRefusedError) -> Response:
    return answer(refused.code, str(refused), {"verdict": refused.verdict.as_json()})


def _from_refusal(refused: ActRefusedError) -> Response:
    error = refused.error
    members: dict[str, Any] = {
        "ply": refused.state.game.ply,
        "failed_index": refused.index,
        "legal_moves": view.legal_moves(refused.state),
    }
    if isinstance(error, IllegalMoveError):
        members["reason"] = error.refusal.reason
    elif isinstance(error, AmbiguousMoveError):
        members["targets"] = list(error.targets)
    return answer(error.code, str(error), members)


def from_http(error: HTTPException) -> Response:
    """Return the answer to an error of the framework: routes, methods, bodies."""
    status = error.code or 500
    if status < 400:  # noqa: PLR2004
        return Response(headers=error.get_headers(), status=status)
    return _answer(explain_http(status, error.description or "", dict(error.get_headers())))


def explain_http(status: int, description: str, headers: Mapping[str, str]) -> Problem:
    """Return what is told of an error of a framework.

    Args:
        status: Its status, 400 or more.
        description: What the framework says of it.
        headers: The framework's headers, of which `Allow` is kept.
    """
    code = _BY_STATUS.get(status, "malformed-request" if status < 500 else "internal-error")  # noqa: PLR2004
    kept = {name: value for name, value in headers.items() if name == "Allow"}
    detail = PROBLEMS[code][1] if status >= 500 or not description else description  # noqa: PLR2004
    return Problem(code, detail, {}, kept)


FAULT: Final = Problem("internal-error", "the fault is ours; nothing was changed by halves")
"""What is told of a fault that nobody foresaw."""


def _from_fault(error: Exception) -> Response:
    _log.error("internal error in request %s", g.get("request_id", "-"), exc_info=error)
    return _answer(FAULT)
