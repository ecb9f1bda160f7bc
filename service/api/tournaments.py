"""The operations on tournaments: each reads the request and calls one use case."""

import hmac
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import Any, Final
from uuid import UUID

from flask import Response, request

from service import access, tournament_view, view
from service.api import schemas
from service.api import tournament_schemas as shapes
from service.api.framework import (
    HOUR,
    NDJSON,
    Blueprint,
    Turn,
    answer,
    database,
    given_key,
    guessing,
    lines,
    long_text,
    run,
    seen_version,
    settings,
    signed,
    signing,
    tagged,
)
from service.api.lists import linked, place
from service.engine import DEFAULT_RULESET
from service.engine.replay import canonical
from service.engine.standings import Cut, Scoring, scoring_of
from service.games import draw_seed
from service.store.database import new_id
from service.tournaments import entering, feed, hosting, jobs, pages, results, settling
from service.tournaments.model import (
    JOIN,
    MAX_DEALS,
    ORGANISE,
    STAFF,
    BadTournamentError,
    InviteInvalidError,
    Plan,
    Seen,
    Stage,
    look,
)
from service.tournaments.templates import (
    TEMPLATES,
    After,
    Calendar,
    after_instant,
    dates,
    zone,
)
from service.view import Json

tournaments = Blueprint(
    "Tournaments", __name__, description="Sealed deals that all play alike, and their standings."
)

_FOUND: Final = ("not-found",)
_HOSTS: Final = (*_FOUND, "role-missing", "wrong-state")
_ADDRESS_LABEL: Final = b"royal-rendezvous/address/1\0"


def settled(tournament_id: UUID, act: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return what a use case gives once all that is due is written.

    What it gives is a :class:`Seen`, or something that has one as `seen` or comes first in it.
    """
    found = run(act, tournament_id, *args, **options)
    if _seen(found).due:
        settling.settle(database(), tournament_id)
        found = run(act, tournament_id, *args, **options)
    return found


def _seen(found: Any) -> Seen:
    if isinstance(found, Seen):
        return found
    seen = found[0] if isinstance(found, tuple) else found.seen
    assert isinstance(seen, Seen)  # noqa: S101 - for the type checker
    return seen


def acted(tournament_id: UUID, act: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return what an act gives, done once all that is due is written."""
    if run(settling.is_due, tournament_id):
        settling.settle(database(), tournament_id)
    return run(act, tournament_id, *args, transaction=True, **options)


def _shown(seen: Seen, status: int = 200) -> Response:
    told = tournament_view.tournament(seen, entering.conditions(seen), settings().events_at)
    response = tagged(told, version=seen.tournament.version)
    if status != 200:  # noqa: PLR2004
        response.status_code = status
        response.headers["Location"] = tournament_view.path(seen.tournament.id)
    return response


def _ms(value: int | None) -> timedelta | None:
    return timedelta(milliseconds=value) if value else None


def _stages(rounds: list[Json]) -> tuple[Stage, ...]:
    return tuple(
        Stage(
            one["starts_at"],
            one["ends_at"],
            one["deals"],
            Cut(one["cut"]["by"], one["cut"]["value"]) if "cut" in one else None,
        )
        for one in rounds
    )


def _scoring(value: Json | None) -> Scoring:
    try:
        return Scoring() if value is None else scoring_of(value)
    except ValueError as error:
        raise BadTournamentError("/scoring/keys", str(error)) from error


_USUAL: Final[Json] = {
    "about": "",
    "ruleset": DEFAULT_RULESET,
    "visibility": "public",
    "entry": {},
    "attempts": 1,
    "warm_up": False,
    "reveal": "closing",
}
"""What a tournament is where neither its host nor its template says so."""


def _filled(body: Json) -> Json:
    """Return a body with what it leaves out, but for rounds."""
    template = TEMPLATES.get(body.get("template", ""))
    filled = {**_USUAL, **(template.plan if template else {}), **body}
    if "title" not in filled:
        raise BadTournamentError("/title", "needed without a template")
    return filled


def _with_rounds(
    body: Json,
    start: str,
    rounds: Callable[[], list[Json]],
    after: Callable[[], Callable[[After], datetime]],
) -> Json:
    """Return a body with all that it leaves out.

    Args:
        body: The body.
        start: The member that says when its template starts.
        rounds: Gives its own rounds.
        after: Gives what tells when something of its template is.
    """
    filled = _filled(body)
    if "rounds" in body:
        if start in body:
            raise BadTournamentError(f"/{start}", "the rounds say when they start")
        filled["rounds"] = rounds()
    elif "template" not in body:
        raise BadTournamentError("/rounds", "needed without a template")
    elif start not in body:
        raise BadTournamentError(f"/{start}", "a template is to be told when it starts")
    else:
        filled["rounds"] = TEMPLATES[body["template"]].rounds(after())
    return filled


def _plan(body: Json) -> Callable[[datetime], Plan]:
    """Return what gives the plan that a body tells, from the request's instant."""
    return _planned(
        _with_rounds(
            body, "starts_at", lambda: body["rounds"], lambda: after_instant(body["starts_at"])
        )
    )


def _planned(body: Json) -> Callable[[datetime], Plan]:
    entry, stages = body["entry"], _stages(body["rounds"])
    scoring = _scoring(body.get("scoring"))

    def plan(now: datetime) -> Plan:
        return Plan(
            title=body["title"],
            about=body["about"],
            ruleset=body["ruleset"],
            visibility=body["visibility"],
            entry_by=entry.get("by", "open"),
            capacity=entry.get("capacity"),
            entry_opens_at=entry.get("opens_at", min(now, stages[0].starts_at)),
            entry_closes_at=entry.get("closes_at", stages[0].ends_at),
            attempts=body["attempts"],
            limit=_ms(body.get("limit_ms")),
            scoring=scoring,
            warm_up=body["warm_up"],
            reveal=body["reveal"],
            stages=stages,
        )

    return plan


def _series(body: Json) -> dict[date, Callable[[datetime], Plan]]:
    """Return for each date of a series what gives its plan."""
    try:
        first = date.fromisoformat(body["first"])
    except ValueError as error:
        raise BadTournamentError("/first", "there is no such date") from error
    try:
        there = zone(body["zone"])
    except ValueError as error:
        raise BadTournamentError("/zone", str(error)) from error
    return {
        on: _planned(_on(body, Calendar(on, there)))
        for on in dates(first, body["every"], body["count"])
    }


_DATE: Final = "{date}"


def _on(body: Json, calendar: Calendar) -> Json:
    """Return the body of a tournament on one date of its series."""

    def at(told: Json) -> datetime:
        return calendar.at(told["day"], time.fromisoformat(told["time"]))

    def rounds() -> list[Json]:
        return [
            {**one, "starts_at": at(one["starts"]), "ends_at": at(one["ends"])}
            for one in body["rounds"]
        ]

    filled = _with_rounds(
        body, "at", rounds, lambda: calendar.after(time.fromisoformat(body["at"]))
    )
    entry = dict(filled["entry"])
    for name in ("opens", "closes"):
        if name in entry:
            entry[f"{name}_at"] = at(entry.pop(name))
    title = body.get("title", f"{filled['title']}, {_DATE}").replace(_DATE, str(calendar.date))
    if len(title) > shapes.MAX_TITLE:
        raise BadTournamentError("/title", f"{shapes.MAX_TITLE} characters at most, with its date")
    return {**filled, "entry": entry, "title": title}


def _change(body: Json) -> Callable[[Plan], Plan]:
    same = ("title", "about", "ruleset", "visibility", "attempts", "warm_up", "reveal")
    values: Json = {name: body[name] for name in same if name in body}
    entry = body.get("entry", {})
    for given, name in (
        ("by", "entry_by"),
        ("opens_at", "entry_opens_at"),
        ("closes_at", "entry_closes_at"),
    ):
        if given in entry:
            values[name] = entry[given]
    if "capacity" in entry:
        values["capacity"] = entry["capacity"] or None
    if "limit_ms" in body:
        values["limit"] = _ms(body["limit_ms"])
    if "scoring" in body:
        values["scoring"] = _scoring(body["scoring"])
    if "rounds" in body:
        values["stages"] = _stages(body["rounds"])
    return lambda plan: replace(plan, **values)


def _plain(value: Any) -> Any:
    """Return a loaded body in a form that is the same for all bodies that mean the same."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return view.instant(value) if isinstance(value, datetime) else value


@tournaments.operation(
    "POST",
    "/v1/tournaments",
    "createTournament",
    "Make a tournament",
    shapes.Tournament,
    status=201,
    headers=("Location",),
    body=shapes.NewTournament,
    bearer="needed",
    needs=ORGANISE,
    keyed=True,
    fails=("bad-tournament",),
)
def create_tournament(body: Json) -> Response:
    """Make a draft, which only its hosts see: nothing is fixed before it is published.

    With an `Idempotency-Key` it is safe to repeat.
    """
    key = given_key("createTournament", canonical(_plain(body)))
    seen = run(hosting.create, _plan(body), tournament_id=new_id(), key=key, transaction=True)
    return _shown(seen, 201)


@tournaments.operation(
    "POST",
    "/v1/tournaments/series",
    "createSeries",
    "Make a series of tournaments",
    shapes.MadeSeries,
    status=201,
    headers=("Location",),
    body=shapes.NewSeries,
    bearer="needed",
    needs=ORGANISE,
    keyed=True,
    fails=("bad-tournament",),
)
def create_series(body: Json) -> Response:
    """Make a draft for each date of a series, all or none; each is edited and published by itself.

    Times are what clocks in the zone show, before and after they are changed: 19:00 stays 19:00.
    A time that a change leaves out is an hour later by the clocks; of one that comes twice it is
    the first. With an `Idempotency-Key` it is safe to repeat.
    """
    key = given_key("createSeries", canonical(body))
    plans = _series(body)
    series, made = run(
        hosting.create_series,
        plans,
        ids=[new_id() for _ in plans],
        series=new_id(),
        key=key,
        transaction=True,
    )
    told = {"series": str(series), "tournaments": list(map(tournament_view.summary, made))}
    response = answer(told, 201)
    at = f"{view.ROOT}/tournaments?which=hosted&series={series}"
    response.headers["Location"] = at
    return response


@tournaments.operation(
    "GET",
    "/v1/tournament-templates",
    "listTemplates",
    "Templates of tournaments",
    shapes.TemplateList,
    headers=("ETag",),
)
def list_templates() -> Response:
    """Tournaments without instants, to be made by name and told when."""
    told = [tournament_view.template(name, of) for name, of in TEMPLATES.items()]
    return tagged({"templates": told}, public=HOUR)


@tournaments.operation(
    "GET",
    "/v1/tournaments",
    "listTournaments",
    "Tournaments",
    shapes.TournamentList,
    headers=("Link",),
    query=shapes.TournamentQuery,
    bearer="taken",
    needs=access.READ,
    fails=("unknown-cursor",),
)
def list_tournaments(query: Json) -> Response:
    """Tournaments, those made last first: the public ones, or one's own.

    `Link: <...>; rel="next"` leads on to older ones and `rel="prev"` back, while there are any.
    """
    filters = {name: value for name, value in query.items() if name not in {"cursor", "limit"}}
    if "series" in filters:
        filters["series"] = UUID(filters["series"])
    page = run(hosting.list_tournaments, limit=query["limit"], place=place(), **filters)
    told = {"tournaments": [tournament_view.summary(one) for one in page.items]}
    return linked(answer(told), page)


@tournaments.operation(
    "GET",
    "/v1/tournaments/<uuid:tournament_id>",
    "getTournament",
    "One tournament",
    shapes.Tournament,
    headers=("ETag",),
    bearer="taken",
    needs=access.READ,
    fails=_FOUND,
)
def get_tournament(tournament_id: UUID) -> Response:
    """A tournament as the viewer sees it: where it is, what it commits to, whether they may enter.

    The `ETag` is what `If-Match` of a change must carry.
    """
    return _shown(settled(tournament_id, look))


@tournaments.operation(
    "PATCH",
    "/v1/tournaments/<uuid:tournament_id>",
    "editTournament",
    "Change a tournament",
    shapes.Tournament,
    headers=("ETag",),
    body=shapes.TournamentChange,
    bearer="needed",
    needs=ORGANISE,
    matched=True,
    fails=(*_HOSTS, "bad-tournament"),
)
def edit_tournament(body: Json, tournament_id: UUID) -> Response:
    """Change what is told of a tournament.

    A draft may be changed in all. Once it is published, what attempts depend on is fixed: ruleset,
    deals, attempts, limit, scoring, cuts, reveal. A round's start may move until it has come, its
    end until it has passed; open attempts then end by the new one.

    `If-Match` must carry the `ETag` of the tournament as it was seen.
    """
    seen = acted(tournament_id, hosting.edit, seen_version(), _change(body), body.get("reason"))
    return _shown(seen)


def _host(
    name: str,
    verb: str,
    summary: str,
    act: Callable[..., Seen],
    text: str,
    **options: Any,
) -> None:
    """Add an operation by which hosts do something that needs no more than to be said."""

    def perform(tournament_id: UUID) -> Response:
        return _shown(acted(tournament_id, act))

    perform.__name__, perform.__doc__ = name, text
    tournaments.operation(
        "POST",
        f"/v1/tournaments/<uuid:tournament_id>/{verb}",
        name,
        summary,
        shapes.Tournament,
        headers=("ETag",),
        bearer="needed",
        needs=ORGANISE,
        fails=_HOSTS,
        **options,
    )(perform)


@tournaments.operation(
    "POST",
    "/v1/tournaments/<uuid:tournament_id>/publish",
    "publishTournament",
    "Publish a tournament",
    shapes.Tournament,
    headers=("ETag",),
    bearer="needed",
    needs=ORGANISE,
    fails=_HOSTS,
)
def publish_tournament(tournament_id: UUID) -> Response:
    """Publish a draft: its deals are drawn and sealed, and commitments to them are public.

    It is safe to repeat.
    """
    seeds = [draw_seed() for _ in range(MAX_DEALS + 1)]
    return _shown(acted(tournament_id, hosting.publish, seeds))


@tournaments.operation(
    "POST",
    "/v1/tournaments/<uuid:tournament_id>/cancel",
    "cancelTournament",
    "Call a tournament off",
    shapes.Tournament,
    headers=("ETag",),
    body=shapes.WithReason,
    bearer="needed",
    needs=ORGANISE,
    fails=_HOSTS,
)
def cancel_tournament(body: Json, tournament_id: UUID) -> Response:
    """Call a tournament off, whatever has been played. It cannot be taken back; safe to repeat."""
    return _shown(acted(tournament_id, hosting.cancel, body["reason"]))


_host(
    "freezeStandings",
    "freeze",
    "Freeze the standings",
    hosting.freeze,
    "Keep the standings that others see as they are now. Play goes on. It is safe to repeat.",
)
_host(
    "unfreezeStandings",
    "unfreeze",
    "Show the standings again",
    hosting.unfreeze,
    "Show the standings as they are again. It is safe to repeat.",
)


@tournaments.operation(
    "POST",
    "/v1/tournaments/<uuid:tournament_id>/rounds/<int:number>/reveal",
    "revealRound",
    "Reveal a round's deals",
    shapes.Tournament,
    headers=("ETag",),
    bearer="needed",
    needs=ORGANISE,
    fails=_HOSTS,
)
def reveal_round(tournament_id: UUID, number: int) -> Response:
    """Let everybody know the seeds of a round in which nothing can change. It is safe to repeat.

    Only where `reveal` is `by-hand`; else they are known as soon as the round has closed.
    """
    return _shown(acted(tournament_id, hosting.reveal, number))


@tournaments.operation(
    "POST",
    "/v1/tournaments/<uuid:tournament_id>/entries",
    "enterTournament",
    "Enter a tournament",
    shapes.Entry,
    status=201,
    headers=("Location",),
    body=shapes.Entering,
    bearer="needed",
    needs=JOIN,
    fails=(*_FOUND, "entry-closed", "tournament-full", "invite-invalid"),
)
def enter_tournament(body: Json, tournament_id: UUID) -> Response:
    """Enter, or be told the entry that one has: it is safe to repeat.

    The tournament's `conditions` tell beforehand what would refuse one. Wrong codes count for a
    rate limit of their own, `codes`; beyond it no code is tried any more.
    """
    code = body.get("code")
    with nullcontext() if code is None else guessing(InviteInvalidError, access.NotFoundError):
        entered = acted(
            tournament_id,
            entering.join,
            entry_id=new_id(),
            code=None if code is None else code.upper(),
            address=address(tournament_id),
        )
    response = answer(tournament_view.entry(*entered), 201)
    response.headers["Location"] = f"{tournament_view.path(tournament_id)}/entries/me"
    return response


def address(tournament_id: UUID) -> bytes:
    """Return a keyed hash of the client's address: equal ones can be told, and no more.

    The key is not in the database, which alone tells no address.
    """
    keys = signing()
    secret = keys.secret(_ADDRESS_LABEL) if keys else b""
    named = tournament_id.bytes + (request.remote_addr or "").encode()
    return hmac.digest(secret, named, "sha256")[:16]


@tournaments.operation(
    "GET",
    "/v1/tournaments/<uuid:tournament_id>/entries/me",
    "getMyEntry",
    "My entry",
    shapes.Entry,
    bearer="needed",
    needs=access.READ,
    fails=(*_FOUND, "not-entered"),
)
def get_my_entry(tournament_id: UUID) -> Response:
    """One's own entry, with the attempts made and left at each deal."""
    return answer(tournament_view.entry(*settled(tournament_id, entering.read_own)))


@tournaments.operation(
    "DELETE",
    "/v1/tournaments/<uuid:tournament_id>/entries/me",
    "leaveTournament",
    "Withdraw my entry",
    None,
    status=204,
    bearer="needed",
    needs=JOIN,
    fails=(*_FOUND, "not-entered", "wrong-state"),
)
def leave_tournament(tournament_id: UUID) -> Response:
    """Withdraw: the entry keeps its games, loses its rank and frees its place. Safe to repeat."""
    acted(tournament_id, entering.leave)
    return Response(status=204)


@tournaments.operation(
    "POST",
    "/v1/tournaments/<uuid:tournament_id>/attempts",
    "startAttempt",
    "Start an attempt",
    schemas.Game,
    status=201,
    headers=("Location",),
    body=shapes.Attempting,
    bearer="needed",
    needs=JOIN,
    fails=(
        *_FOUND,
        "not-entered",
        "deal-closed",
        "not-through",
        "attempts-used",
        "broken-log",
    ),
)
def start_attempt(body: Json, tournament_id: UUID) -> Response:
    """Start an attempt at a deal: a game, played like any other until its deadline at the latest.

    An open attempt at the deal is returned as it stands, so it is safe to repeat. One that was
    started counts, however little of it is played.
    """
    state = acted(tournament_id, entering.start, body["deal"], new_id())
    response = answer(view.game(state, settings().events_at), 201)
    response.headers["Location"] = f"{view.ROOT}/games/{state.record.id}"
    return response


@tournaments.operation(
    "GET",
    "/v1/tournaments/<uuid:tournament_id>/standings",
    "getStandings",
    "Standings",
    shapes.Standings,
    headers=("Link",),
    query=shapes.StandingsQuery,
    bearer="taken",
    needs=access.READ,
    fails=(*_FOUND, "role-missing", "unknown-cursor"),
)
def get_standings(query: Json, tournament_id: UUID) -> Response:
    """A page of the standings, the best first; ranks are exact as of the instant that is told.

    `Link: <...>; rel="next"` leads on and `rel="prev"` back, while there are rows on that side.
    """
    board = settled(
        tournament_id,
        pages.board,
        number=query["number"],
        live=query["view"] == "live",
        limit=query["limit"],
        place=place(),
    )
    return linked(answer(tournament_view.board(board)), board.page)


@tournaments.operation(
    "GET",
    "/v1/tournaments/<uuid:tournament_id>/standings/around",
    "getStandingsAround",
    "Standings around an entry",
    shapes.Standings,
    query=shapes.AroundQuery,
    bearer="taken",
    needs=access.READ,
    fails=(*_FOUND, "role-missing", "not-entered", "token-missing"),
)
def get_standings_around(query: Json, tournament_id: UUID) -> Response:
    """An entry's place, one's own if not told whose, with those just before and after it."""
    entry = query.get("entry")
    board = settled(
        tournament_id,
        pages.around,
        number=query["number"],
        live=query["view"] == "live",
        each=query["each"],
        entry=None if entry is None else UUID(entry),
    )
    return answer(tournament_view.board(board))


@tournaments.operation(
    "GET",
    "/v1/tournaments/<uuid:tournament_id>/events",
    "listTournamentEvents",
    "What was done",
    shapes.HappeningList,
    query=shapes.EventQuery,
    bearer="taken",
    needs=access.READ,
    fails=_FOUND,
)
def list_events(query: Json, tournament_id: UUID) -> Response:
    """Everything that was done or came about, in order: who, when and why.

    Who did it is told to the hosts alone, and so are some events. Results, cuts and rulings that a
    freeze keeps back are told once it has ended, by the numbers that they have: whoever has read on
    meanwhile finds them after `frozen`.
    """
    seen, found = settled(tournament_id, feed.read, after=query["after"], limit=query["limit"])
    hosts = seen.role in STAFF
    told = [tournament_view.happening(one, hosts=hosts) for one in found]
    return answer({"events": told})


_JOB: Final = "/v1/tournaments/<uuid:tournament_id>/jobs/<uuid:job_id>"


def _begun(tournament_id: UUID, kind: jobs.Kind, reason: str | None = None) -> Response:
    job = acted(tournament_id, jobs.start, job_id=new_id(), kind=kind, reason=reason)
    told = tournament_view.job(job)
    response = answer(told, 202)
    response.headers["Location"] = told["links"]["self"]
    return response


@tournaments.operation(
    "POST",
    "/v1/tournaments/<uuid:tournament_id>/verifications",
    "verifyAttempts",
    "Verify a tournament's attempts",
    shapes.Job,
    status=202,
    headers=("Location",),
    bearer="needed",
    needs=ORGANISE,
    fails=_HOSTS,
)
def verify_attempts(tournament_id: UUID) -> Response:
    """Have all attempts that are over verified by their logs, those aside that were already.

    What is not valid leaves the standings, and its hosts are told by an event. Results are final
    only of what is verified. While one is under way it is what is answered.
    """
    return _begun(tournament_id, "verification")


@tournaments.operation(
    "POST",
    "/v1/tournaments/<uuid:tournament_id>/rejudgings",
    "rejudgeAttempts",
    "Judge a tournament's attempts again",
    shapes.Job,
    status=202,
    headers=("Location",),
    body=shapes.Judging,
    bearer="needed",
    needs=ORGANISE,
    fails=_HOSTS,
)
def rejudge_attempts(body: Json, tournament_id: UUID) -> Response:
    """Judge all attempts that are over again, and find what would move; nothing moves by it.

    What is found is then applied or dropped as a whole. While one is under way or not decided it
    is what is answered.
    """
    return _begun(tournament_id, "rejudging", body["reason"])


@tournaments.operation(
    "GET",
    _JOB,
    "getJob",
    "How far a job is",
    shapes.Job,
    bearer="needed",
    needs=ORGANISE,
    fails=(*_FOUND, "role-missing"),
)
def get_job(tournament_id: UUID, job_id: UUID) -> Response:
    """How far a verification or a rejudging is, and what it found; each reading takes it further.

    It goes on in the background as well.
    """
    job = run(jobs.read, tournament_id, job_id)
    if job.state == "running":
        jobs.advance(database(), job, jobs.SMALL_STEP)
        job = run(jobs.read, tournament_id, job_id)
    return answer(tournament_view.job(job))


@tournaments.operation(
    "POST",
    f"{_JOB}/apply",
    "applyRejudging",
    "Apply a rejudging",
    shapes.Job,
    bearer="needed",
    needs=ORGANISE,
    fails=_HOSTS,
)
def apply_rejudging(tournament_id: UUID, job_id: UUID) -> Response:
    """Write what a rejudging found, and all standings anew, in one step. Safe to repeat."""
    return answer(tournament_view.job(acted(tournament_id, jobs.apply, job_id)))


@tournaments.operation(
    "POST",
    f"{_JOB}/drop",
    "dropRejudging",
    "Drop a rejudging",
    shapes.Job,
    bearer="needed",
    needs=ORGANISE,
    fails=_HOSTS,
)
def drop_rejudging(tournament_id: UUID, job_id: UUID) -> Response:
    """Have a rejudging change nothing. Safe to repeat."""
    return answer(tournament_view.job(acted(tournament_id, jobs.drop, job_id)))


@tournaments.operation(
    "POST",
    "/v1/tournaments/<uuid:tournament_id>/finalise",
    "finaliseTournament",
    "Make results final",
    shapes.Tournament,
    headers=("ETag",),
    bearer="needed",
    needs=ORGANISE,
    fails=(*_HOSTS, "not-verified"),
)
def finalise_tournament(tournament_id: UUID) -> Response:
    """Write results down for good: a numbered, signed snapshot of entries and attempts.

    All rounds must be closed, all attempts verified, and no rejudging undecided. Seeds that are not
    known yet are revealed by it, and frozen standings shown. It is safe to repeat.
    """
    keys = signing()
    return _shown(acted(tournament_id, results.finalise, keys.sign if keys else None))


@tournaments.operation(
    "POST",
    "/v1/tournaments/<uuid:tournament_id>/reopen",
    "reopenTournament",
    "Have results not be final",
    shapes.Tournament,
    headers=("ETag",),
    body=shapes.WithReason,
    bearer="needed",
    needs=ORGANISE,
    fails=_HOSTS,
)
def reopen_tournament(body: Json, tournament_id: UUID) -> Response:
    """Have results be open again, for a ruling or a rejudging. Those that were stay on record.

    When they are made final again they get the next number.
    """
    return _shown(acted(tournament_id, results.reopen, body["reason"]))


_RESULTS_LINE: Final = {"$ref": "#/components/schemas/ResultsLine"}
_RESULTS: Final[Json] = {
    # One media type is documented: of several, generators of clients make what does not run.
    "x-bulk": {"media-type": NDJSON, "x-item-schema": _RESULTS_LINE},
    "x-table": {"media-type": tournament_view.CSV},
}


@tournaments.operation(
    "GET",
    "/v1/tournaments/<uuid:tournament_id>/results",
    "getResults",
    "Final results",
    shapes.Results,
    query=shapes.ResultsQuery,
    bearer="taken",
    needs=access.READ,
    fails=(*_FOUND, "wrong-state", "streams-full"),
    **_RESULTS,
)
def get_results(query: Json, tournament_id: UUID) -> Response:
    """The results that are final now; until some are, there are none (`wrong-state`).

    As JSON; as NDJSON, the document without its entries, these one a line, and a closing line; or
    as CSV, with the players' names. `rendezvous results verify` checks the first two with the
    replays, offline.
    """
    return _results(query, tournament_id, None)


@tournaments.operation(
    "GET",
    "/v1/tournaments/<uuid:tournament_id>/results/<int:edition>",
    "getResultsEdition",
    "Results of a number",
    shapes.Results,
    query=shapes.ResultsQuery,
    bearer="taken",
    needs=access.READ,
    fails=(*_FOUND, "streams-full"),
    **_RESULTS,
)
def get_results_edition(query: Json, tournament_id: UUID, edition: int) -> Response:
    """Results as they were made final once, whatever came later; see `getResults`."""
    return _results(query, tournament_id, min(edition, 2**31 - 1))


def _results(query: Json, tournament_id: UUID, number: int | None) -> Response:
    form = query.get("format") or _accepted()
    with Turn() as turn:  # of a big event they are tens of megabytes in any form but CSV
        found = run(results.read, tournament_id, number)
        if form == "ndjson":
            response = lines(turn, tournament_view.results_lines(found))
        elif form == "csv":
            named = database().run(lambda one: results.names(one, tournament_id))
            table = tournament_view.results_table(found, named)
            response = long_text(turn, [table.encode()], tournament_view.CSV)
        else:
            response = long_text(turn, tournament_view.results_text(found), "application/json")
    response.headers["Vary"] = "Accept, Authorization"
    return response


def _accepted() -> str:
    forms = {"application/json": "json", NDJSON: "ndjson", tournament_view.CSV: "csv"}
    return forms[request.accept_mimetypes.best_match(forms, "application/json")]


@tournaments.operation(
    "GET",
    "/v1/tournaments/<uuid:tournament_id>/replays",
    "exportTournamentReplays",
    "A tournament's replays",
    schemas.ReplayLine,
    media_type=NDJSON,
    bearer="taken",
    needs=access.READ,
    fails=(*_FOUND, "streams-full"),
)
def export_tournament_replays(tournament_id: UUID) -> Response:
    """All attempts that are over, one replay a line, by entry, deal and attempt; signed.

    Before a round's reveal nobody sees its attempts but each player their own. The last line counts
    the others: without it the export is not complete. An attempt that was found invalid, or whose
    record is damaged, is told as `{"broken": id}`.
    """
    with Turn() as turn:
        found = settled(tournament_id, results.export, database())
        # The app is out of reach once the answer is under way.
        keys = signing()
        return lines(turn, (signed(document, keys) for document in found.documents))
