"""The operations. Each reads the request, calls one use case and dumps what that returns."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any, BinaryIO, Final
from uuid import UUID

from flask import Response, request
from werkzeug.exceptions import RequestEntityTooLarge

from service import __version__, access, games, metrics, players, replays, tokens, view
from service.access import TokenMissingError, Viewer
from service.api import schemas
from service.api.framework import (
    HOUR,
    MAX_BODY_BYTES,
    NDJSON,
    Blueprint,
    Turn,
    answer,
    bearer,
    charge,
    database,
    given_key,
    limits,
    lines,
    read_body,
    run,
    settings,
    signed,
    signing,
    spool_body,
    tagged,
)
from service.api.lists import linked, place
from service.api.problems import BadRequestError, RegistrationClosedError
from service.engine import DEAL_SPECS, RULESETS, Ruleset, describe, table, verify_text
from service.engine.game import LOG_LIMIT
from service.engine.replay import FORMAT, MEDIA_TYPE, canonical
from service.engine.verify import MAX_DOCUMENT_BYTES
from service.games import MAX_BATCH, Command, DeadlinePassedError, State
from service.players import Player
from service.replay_files import Tally, judge_lines
from service.signatures import Checker
from service.store.database import Instant, new_id
from service.tournaments import settling
from service.view import Json

about = Blueprint("About", __name__, description="What this service offers: rules, deals, limits.")
people = Blueprint("Players", __name__, description="Players and their tokens.")
play = Blueprint("Games", __name__, description="Create, read and play games.")
records = Blueprint("Replays", __name__, description="Recorded games and their verification.")

BLUEPRINTS: Final = (about, people, play, records)

_VERDICT_LINE: Final = {"$ref": "#/components/schemas/VerdictLine"}
_IN_BULK: Final[Json] = {"x-bulk": {"media-type": NDJSON, "x-item-schema": _VERDICT_LINE}}
MAX_BULK_BYTES: Final = 1 << 25
"""Longest body of documents one a line ..."""
MAX_BULK_LINES: Final = 100_000
"""... and its most lines."""
MAX_ANONYMOUS_BULK_BYTES: Final = 1 << 20
"""Longest one without a token."""

_STORE: Final = ("database-unavailable",)
_GAME: Final = ("not-found", "broken-log")
_ACTS: Final = (*_GAME, "stale-ply", "deadline-passed", "game-over", "log-full")
_MOVES: Final = ("illegal-move", "ambiguous-move", "card-mismatch", "batch-past-hidden-card")


@about.operation(
    "GET",
    "/v1",
    "getCapabilities",
    "Versions, rulesets, limits and the time",
    schemas.Capabilities,
    fails=_STORE,
)
def capabilities() -> Response:
    """What this service offers; a client may begin here."""
    now = database().now()
    return answer(
        {
            "service": __version__,
            "api": "v1",
            "replay": FORMAT,
            "deal_specs": DEAL_SPECS,
            "rulesets": list(RULESETS),
            "registration": settings().registration,
            "limits": {
                "moves_per_request": MAX_BATCH,
                "log_entries": LOG_LIMIT,
                "body_bytes": MAX_BODY_BYTES,
                "replay_bytes": MAX_DOCUMENT_BYTES,
                "bulk_bytes": MAX_BULK_BYTES,
                "anonymous_bulk_bytes": MAX_ANONYMOUS_BULK_BYTES,
                "bulk_lines": MAX_BULK_LINES,
                "import_bytes": replays.MAX_IMPORT_BYTES,
                "imported_bytes": replays.MAX_IMPORTED_BYTES,
                "imports": replays.MAX_IMPORTS,
                "tokens": players.MAX_TOKENS,
                "page_items": schemas.MAX_LIMIT,
                **({"games_in_play": most} if (most := settings().games_in_play) else {}),
                "rates": [
                    {
                        "name": rate.name,
                        "per": rate.per,
                        "amount": rate.amount,
                        "window_ms": 1000 * rate.seconds,
                        "shared": limits().shared,
                    }
                    for rate in limits().rates.values()
                ],
            },
            "time": view.instant(now),
        }
    )


@about.operation(
    "GET",
    "/v1/rulesets",
    "listRulesets",
    "All rulesets",
    schemas.RulesetList,
    headers=("ETag",),
)
def list_rulesets() -> Response:
    """All rulesets, the default first."""
    rulesets = [
        {
            "name": row.name,
            "game": row.game,
            "edition": row.edition,
            "links": {"self": f"{view.ROOT}/rulesets/{row.name}"},
        }
        for row in RULESETS.values()
    ]
    return tagged({"rulesets": rulesets}, public=HOUR)


@about.operation(
    "GET",
    "/v1/rulesets/<string:name>",
    "getRuleset",
    "One ruleset: parameters, rules in words, move table",
    schemas.Ruleset,
    headers=("ETag",),
    fails=("not-found",),
)
def get_ruleset(name: str) -> Response:
    """A ruleset as the engine has it. It never changes; a change has a new name."""
    if name not in RULESETS:
        raise BadRequestError("not-found", f"no ruleset has this name; see {view.ROOT}/rulesets")
    return tagged(_ruleset(RULESETS[name]), public=HOUR)


def _ruleset(row: Ruleset) -> Json:
    families = [
        {
            "name": family.name,
            "ranks": list(family.ranks),
            "laid_out": family.laid_out,
            **({"waits_for": family.waits_for} if family.waits_for else {}),
        }
        for family in row.families
    ]
    rules = [{"point": point, "text": text} for point, text in describe(row.name).items()]
    moves = table(row.name).codes()
    return {**asdict(row), "families": families, "rules": rules, "moves": moves}


@about.operation(
    "GET",
    "/v1/deals/<string:spec>/<string:ruleset>",
    "getDeal",
    "The deal that a seed gives",
    schemas.Layout,
    headers=("ETag",),
    query=schemas.DealQuery,
    fails=("not-found", "bad-seed"),
)
def get_deal(query: Json, spec: str, ruleset: str) -> Response:
    """Every card of a deal: what anybody who knows the seed can compute."""
    if spec not in DEAL_SPECS or ruleset not in RULESETS:
        raise BadRequestError("not-found", "there is no deal spec or no ruleset of this name")
    return tagged(view.layout(ruleset, spec, query["seed"]), public=HOUR)


@people.operation(
    "POST",
    "/v1/players",
    "createPlayer",
    "Become a player",
    schemas.NewPlayerToken,
    status=201,
    body=schemas.NewPlayer,
    rate="players",
    fails=("registration-closed", *_STORE),
)
def create_player(body: Json) -> Response:
    """Make a player and a first token, whose text is shown this once.

    If the answer is lost, make another player: an `Idempotency-Key` is ignored here, since the
    token's text is kept nowhere to be told again.
    """
    if settings().registration == "closed":
        raise RegistrationClosedError("this host takes no new players")
    token, ids, instant = tokens.draw(), (new_id(), new_id()), Instant()
    player = database().run(
        lambda connection: players.register(connection, instant, ids, body["name"], token),
        transaction=True,
    )
    return answer({"player": _player(player), "token": token}, 201)


def _player(player: Player) -> Json:
    return {"id": str(player.id), "name": player.name}


@people.operation(
    "GET",
    "/v1/players/me",
    "getMe",
    "Who I am",
    schemas.Me,
    bearer="needed",
    needs=access.READ,
)
def get_me() -> Response:
    """The player whose token this is, and what the token is good for."""
    return _me(*run(players.me))


def _me(player: Player, who: Viewer) -> Response:
    return answer({"player": _player(player), "scopes": who.scopes, "token": str(who.token)})


@people.operation(
    "PATCH",
    "/v1/players/me",
    "renamePlayer",
    "Change my name",
    schemas.Me,
    body=schemas.PlayerChange,
    bearer="needed",
    needs=access.MANAGE,
)
def rename_player(body: Json) -> Response:
    """Take another name. Games and replays are as they were: they name players by their ids."""
    return _me(*run(players.rename, body["name"], transaction=True))


@people.operation(
    "DELETE",
    "/v1/players/me",
    "deletePlayer",
    "Delete me",
    None,
    status=204,
    bearer="needed",
    needs=access.MANAGE,
)
def delete_player() -> Response:
    """Delete the player: name, tokens, imports and games in play. It cannot be taken back.

    Games that have ended stay, as those of a player without a name, so that their replays can be
    read and verified as before.
    """
    run(players.leave, transaction=True)
    return Response(status=204)


@people.operation(
    "GET",
    "/v1/players/me/export",
    "exportPlayer",
    "All that is held of me",
    schemas.ExportLine,
    media_type=NDJSON,
    bearer="needed",
    needs=access.READ,
)
def export_player() -> Response:
    """Every row of every table that is about the player, one a line.

    Left out are the hashes of tokens, and seeds of games in play that are kept from their player.
    The last line is `{"end": true, "count": N}`: without it the export is not complete.
    """
    with Turn() as turn:
        player, _ = run(players.me)
        settling.settle_overdue(database(), player.id)
        rows = players.export(database(), player.id)
        return lines(turn, ({"table": table, "row": row} for table, row in rows))


@people.operation(
    "POST",
    "/v1/tokens",
    "createToken",
    "Mint a token",
    schemas.MintedToken,
    status=201,
    body=schemas.NewToken,
    bearer="needed",
    fails=("too-many-tokens",),
)
def create_token(body: Json) -> Response:
    """Make a further token for the same player, whose text is shown this once.

    It is good for nothing that the token used here is not good for, and for no longer: the token
    must have every scope that is asked for.

    If the answer is lost, mint another token and revoke that one: an `Idempotency-Key` is ignored
    here, since the token's text is kept nowhere to be told again.
    """
    text = tokens.draw()
    made = run(
        players.mint,
        token_id=new_id(),
        text=text,
        scopes=tuple(dict.fromkeys(body["scopes"])),
        days=body.get("days"),
        transaction=True,
    )
    return answer({**_token(made), "token": text}, 201)


@people.operation(
    "GET",
    "/v1/tokens",
    "listTokens",
    "My tokens",
    schemas.TokenList,
    headers=("Link",),
    query=schemas.PageQuery,
    bearer="needed",
    needs=access.READ,
    fails=("unknown-cursor",),
)
def list_tokens(query: Json) -> Response:
    """One's tokens, newest first, never their texts.

    Those that were revoked or have expired are among them for 30 days at least.
    """
    page = run(players.list_tokens, limit=query["limit"], place=place())
    return linked(answer({"tokens": [_token(one) for one in page.items]}), page)


def _token(token: players.Token) -> Json:
    instants = {
        name: view.instant(value)
        for name in ("created_at", "expires_at", "revoked_at", "last_used_at")
        if (value := getattr(token, name)) is not None
    }
    minted = {} if token.minted_by is None else {"minted_by": str(token.minted_by)}
    return {"id": str(token.id), "scopes": token.scopes, **instants, **minted}


@people.operation(
    "DELETE",
    "/v1/tokens",
    "revokeTokens",
    "Revoke all my tokens",
    None,
    status=204,
    bearer="needed",
    needs=access.MANAGE,
)
def revoke_tokens() -> Response:
    """Revoke every token of the player, this one included: no one can act as them any more.

    Mint no token first: it would be revoked too. To keep one, revoke the others one by one.
    """
    run(players.revoke_all, transaction=True)
    return Response(status=204)


@people.operation(
    "DELETE",
    "/v1/tokens/<uuid:token_id>",
    "revokeToken",
    "Revoke a token",
    None,
    status=204,
    query=schemas.RevocationQuery,
    bearer="needed",
    fails=("not-found",),
)
def revoke_token(query: Json, token_id: UUID) -> Response:
    """Revoke one of one's tokens: from the next request on it is refused.

    Those that were minted by it stay good, unless `minted=true` revokes them too: that is all that
    a client to which it was given may have. A token of any scopes may revoke itself, and with
    `minted=true` what it minted; another one only a token with all the scopes of a first one:
    `games:read`, `games:play`, `tournaments:join`. One that is listed may be revoked again.
    """
    run(players.revoke, token_id, minted=query["minted"] == "true", transaction=True)
    return Response(status=204)


def _game(state: State) -> Json:
    return view.game(state, settings().events_at)


@play.operation(
    "POST",
    "/v1/games",
    "createGame",
    "Create a game",
    schemas.Game,
    status=201,
    headers=("Location",),
    body=schemas.NewGame,
    bearer="needed",
    needs=access.PLAY,
    keyed=True,
    fails=("bad-seed", "seed-needed", "too-many-games", "broken-log"),
)
def create_game(body: Json) -> Response:
    """Create a game: of a seed that is given, or of a hidden one that the server draws.

    A hidden seed shows when the game ends; until then its commitment stands in the header.
    With an `Idempotency-Key` it is safe to repeat.
    """
    named = body["deal"]
    key = given_key("createGame", canonical(body))
    state = run(
        games.create,
        game_id=new_id(),
        ruleset=body["ruleset"],
        spec=named["spec"],
        seed=named.get("seed"),
        drawn=games.draw_seed(),
        most=settings().games_in_play,
        key=key,
        transaction=key is not None,
    )
    if state.new:
        metrics.created.labels(state.record.ruleset).inc()
    response = answer(_game(state), 201)
    response.headers["Location"] = f"{view.ROOT}/games/{state.record.id}"
    return response


@play.operation(
    "GET",
    "/v1/games",
    "listGames",
    "My games",
    schemas.GameList,
    headers=("Link",),
    query=schemas.GameQuery,
    bearer="needed",
    needs=access.READ,
    fails=("unknown-cursor",),
)
def list_games(query: Json) -> Response:
    """One's own games, newest first, those that fit every filter.

    `Link: <...>; rel="next"` leads on to older ones and `rel="prev"` back, while there are any. A
    page stays what it is while games are added: next and then prev gives the same page again.
    """
    query.pop("cursor", None)
    if "player" in query:
        query["player"] = UUID(query["player"])
    _settle_own()
    page = run(games.list_own, place=place(), **query)
    return linked(answer({"games": [view.summary(game) for game in page.items]}), page)


@play.operation(
    "GET",
    "/v1/games/<uuid:game_id>",
    "getGame",
    "A game, now or earlier",
    schemas.Game,
    headers=("ETag",),
    query=schemas.PlyQuery,
    bearer="taken",
    needs=access.READ,
    fails=(*_GAME, "ply-not-reached"),
)
def get_game(query: Json, game_id: UUID) -> Response:
    """A game as it stands, or as it was after `ply` entries of its log.

    A game in play is its player's alone; one that has ended anybody may read who knows its id.
    """
    return tagged(_game(_settled(games.read, game_id, query.get("ply"))))


def _settled(act: Callable[..., State], *args: Any) -> State:
    """Return what a use case gives once it is written that the game's deadline has ended it."""
    try:
        state = run(act, *args)
    except DeadlinePassedError as error:
        if not error.state.record.overdue:
            raise
        state = error.state
    if state.record.overdue and state.record.tournament is not None:
        settling.settle(database(), state.record.tournament)
        return run(act, *args)
    return state


def _settle_own() -> None:
    """Have it written which of the viewer's games their deadlines have ended."""
    player, _ = run(players.me)
    settling.settle_overdue(database(), player.id)


@play.operation(
    "POST",
    "/v1/games/<uuid:game_id>/moves",
    "makeMoves",
    "Make moves",
    schemas.Game,
    body=schemas.Batch,
    bearer="needed",
    rate="moves",
    needs=access.PLAY,
    fails=(*_MOVES, *_ACTS),
)
def make_moves(body: Json, game_id: UUID) -> Response:
    """Make one move or up to 200, all or none.

    Safe to repeat: the same moves at the same ply answer as they did the first time. In a game
    with hidden cards only the last move of a request may turn one up.
    """
    commands = [Command(**move) for move in body["moves"]]
    return _acted("move", _settled(games.move, game_id, body["ply"], commands))


def _acted(act: str, state: State) -> Response:
    if state.new:
        metrics.acts.labels(act).inc(len(state.applied or ()))
        if state.game.status != "playing":
            metrics.ended.labels(state.record.ruleset, state.game.status).inc()
    return answer(_game(state))


@play.operation(
    "POST",
    "/v1/games/<uuid:game_id>/undo",
    "undoMove",
    "Take back a move",
    schemas.Game,
    body=schemas.Act,
    bearer="needed",
    rate="moves",
    needs=access.PLAY,
    fails=("undo-off", "nothing-to-undo", *_ACTS),
)
def undo_move(body: Json, game_id: UUID) -> Response:
    """Take back the latest move that is not taken back yet; also in a lost game.

    Only in games whose seed the player gave. The undo is an entry of the log. Safe to repeat.
    """
    return _acted("undo", _settled(games.undo, game_id, body["ply"]))


@play.operation(
    "POST",
    "/v1/games/<uuid:game_id>/resign",
    "resignGame",
    "Give a game up",
    schemas.Game,
    body=schemas.Act,
    bearer="needed",
    rate="moves",
    needs=access.PLAY,
    fails=_ACTS,
)
def resign_game(body: Json, game_id: UUID) -> Response:
    """Give the game up. Nothing follows. Safe to repeat."""
    return _acted("resign", _settled(games.resign, game_id, body["ply"]))


@play.operation(
    "GET",
    "/v1/games/<uuid:game_id>/events",
    "watchGame",
    "Watch a game live",
    None,
    bearer="taken",
    needs=access.READ,
    fails=(*_GAME, "wrong-server", "too-many-streams", "streams-full"),
    parameters=[schemas.LAST_EVENT_ID],
    responses={"200": schemas.EVENT_STREAM},
    servers=[schemas.STREAM_SERVER],
)
def watch_game(game_id: UUID) -> Response:
    """A game's events as they happen (Server-Sent Events), at the URL in its `links.events`.

    That is on a port of its own: here this is answered with `wrong-server`. Who may read the game
    may watch it.

    - `game`: the game as a read gives it. It comes first, unless `Last-Event-ID` is sent; and again
      if what the client has seen is no longer so, after a database was restored.
    - `change`: the game as it is after one or more entries of the log, which are in `applied`.
    - `end`: the game has ended, and so does the stream. It comes again to whoever connects again.

    Each `id` names a point of the log: its ply, a hyphen, and 16 digits of the game's digest there.
    Sent as `Last-Event-ID`, what happened since comes first; a ply alone will do too. A comment
    comes after at most 14 s without an event. A stream that ends without `end` is to be connected
    again: the service restarts, the token was revoked, or the client was too slow.
    """
    raise BadRequestError(
        "wrong-server", f"events are at {settings().events_at}{view.ROOT}/games/{game_id}/events"
    )


@records.operation(
    "GET",
    "/v1/games/<uuid:game_id>/replay",
    "getReplay",
    "A game's replay document",
    schemas.Replay,
    media_type=MEDIA_TYPE,
    headers=("ETag",),
    bearer="taken",
    needs=access.READ,
    fails=_GAME,
)
def get_replay(game_id: UUID) -> Response:
    """A game as a document that anybody can verify, offline too.

    That of a game that has ended is signed; the keys are at `/.well-known/jwks.json`.
    """
    document = games.replay_of(_settled(games.read, game_id).record)
    return tagged(signed(document, signing()), MEDIA_TYPE)


@records.operation(
    "GET",
    "/v1/replays",
    "exportReplays",
    "My replays in bulk",
    schemas.ReplayLine,
    media_type=NDJSON,
    query=schemas.ExportQuery,
    bearer="needed",
    needs=access.READ,
    fails=("streams-full",),
)
def export_replays(query: Json) -> Response:
    """The replays of one's own games that have ended, one a line, in the order in which they ended.

    The last line is `{"end": true, "count": N, "next": "..."}`: without it the export is not
    complete. There is no limit to its length, and filters leave out what does not match.

    **Incremental copies**: send `next` as `since` of the next export with the same filters. Nothing
    is skipped, however many games end meanwhile; `next` lies some minutes back, so a few replays
    come again. Replace by `header.id`: a game that was lost, taken up again by an undo and ended
    anew comes anew, too.

    A game whose record is damaged is told as `{"broken": id}`. Imported replays are not among them.
    """
    with Turn() as turn:
        _settle_own()
        found = run(replays.export, database(), query)
        # The app is out of reach once the answer is under way.
        documents = map(partial(signed, keys=signing()), found.documents)
        return lines(turn, documents, lambda: {"next": found.next})


@records.operation(
    "POST",
    "/v1/replays/verify",
    "verifyReplay",
    "Verify replay documents",
    schemas.Verification,
    bearer="taken",
    needs=access.READ,
    fails=("request-timeout", "body-too-large", "unsupported-media-type", "streams-full"),
    requestBody={
        "required": True,
        "description": "The document. Whatever comes is judged; what is no replay is `invalid`. "
        f"`{MEDIA_TYPE}` is taken as well, and `{NDJSON}`: documents one a line.",
        # One media type: of several, generators of clients make what does not run.
        "content": {"application/json": {"schema": schemas.Replay}},
    },
    **_IN_BULK,
)
def verify_replay() -> Response:
    """Deal the cards, play the log, compare all that the document claims, and say how it went.

    Signatures are checked by this service's own keys; those of others are left open.

    **In bulk**: documents one a line, sent as `application/x-ndjson`, up to 32 MiB and 100,000
    lines, are answered by verdicts one a line, in order and with the number of the line. The last
    line counts them, and says whether the request had a closing line that counts right. Without a
    token 1 MiB is the most (`token-missing`).

    A body counts for the rate limit as one more request for each 64 KiB of it.
    """
    known = _is_known()
    if request.mimetype == NDJSON:
        return _verify_lines(known)
    _demand_replay()
    text = read_body(MAX_DOCUMENT_BYTES)
    charge(len(text))
    return answer(verify_text(text, _check()).as_json())


def _is_known() -> bool:
    """Return whether the request has a token, which must then be good for reading."""
    if bearer() is None:
        return False
    run(players.me)
    return True


def _demand_replay() -> None:
    if request.mimetype not in {MEDIA_TYPE, "application/json"}:
        raise BadRequestError("unsupported-media-type", f"the body must come as {MEDIA_TYPE}")


def _check() -> Checker | None:
    keys = signing()
    return keys.check if keys else None


def _verify_lines(known: bool) -> Response:  # noqa: FBT001
    with Turn() as turn:
        file, check, tally = _spool_lines(known), _check(), Tally()

        def verdicts() -> Iterator[Json]:
            with file:
                for judgement in judge_lines(file, check):
                    tally.add(judgement)
                    if not judgement.of_file:
                        yield {"line": judgement.line, **judgement.verdict.as_json()}

        def closing() -> Json:
            return {**tally.verdicts, "complete": not tally.file_faults}

        response = lines(turn, verdicts(), closing)
        response.call_on_close(file.close)
        return response


def _spool_lines(known: bool) -> BinaryIO:  # noqa: FBT001
    try:
        return spool_body(MAX_BULK_BYTES if known else MAX_ANONYMOUS_BULK_BYTES, MAX_BULK_LINES)
    except RequestEntityTooLarge:
        if known:
            raise
        most = f"{MAX_ANONYMOUS_BULK_BYTES >> 20} MiB and {MAX_BULK_LINES} lines"
        raise TokenMissingError(f"without a token {most} are verified at once") from None


@records.operation(
    "POST",
    "/v1/replays",
    "importReplay",
    "Import a replay",
    schemas.ImportedReplay,
    status=201,
    headers=("Location",),
    bearer="needed",
    needs=access.PLAY,
    keyed=True,
    fails=(
        "request-timeout",
        "body-too-large",
        "unsupported-media-type",
        "replay-refused",
        "imports-full",
    ),
    requestBody={
        "required": True,
        "description": f"The document, up to 256 KiB. `{MEDIA_TYPE}` is taken as well.",
        "content": {"application/json": {"schema": schemas.Replay}},
    },
)
def import_replay() -> Response:
    """Keep a replay of a game that was played elsewhere, by whomever.

    It must be valid and its game finished. It is marked as imported, never ranked, and its
    importer's alone. The same replay again is the one that is there. An `Idempotency-Key` is taken.

    As it is kept, as canonical JSON in UTF-8, it may be no longer than 256 KiB either; and a player
    keeps 1,000 replays and 64 MiB of them at most.
    """
    _demand_replay()
    text = read_body(replays.MAX_IMPORT_BYTES)
    charge(len(text))
    key = given_key("importReplay", text)
    made = run(replays.add_import, replays.judge(text, _check()), new_id(), key, transaction=True)
    response = answer(_imported(made), 201)
    response.headers["Location"] = _import_path(made)
    return response


def _import_path(made: replays.Import) -> str:
    return f"{view.ROOT}/replays/{made.id}"


def _imported(made: replays.Import) -> Json:
    return {
        "id": str(made.id),
        "imported": True,
        "created_at": view.instant(made.created_at),
        "ruleset": made.ruleset,
        "status": made.status,
        "score": made.score,
        "digest": made.digest.hex(),
        "links": {"self": _import_path(made)},
    }


@records.operation(
    "GET",
    "/v1/imports",
    "listImports",
    "My imported replays",
    schemas.ImportList,
    headers=("Link",),
    query=schemas.PageQuery,
    bearer="needed",
    needs=access.READ,
    fails=("unknown-cursor",),
)
def list_imports(query: Json) -> Response:
    """One's imported replays, newest first.

    `Link: <...>; rel="next"` leads on to older ones and `rel="prev"` back, while there are any.
    """
    page = run(replays.list_imports, limit=query["limit"], place=place())
    return linked(answer({"imports": [_imported(made) for made in page.items]}), page)


@records.operation(
    "GET",
    "/v1/replays/<uuid:import_id>",
    "getImport",
    "An imported replay's document",
    schemas.Replay,
    media_type=MEDIA_TYPE,
    bearer="needed",
    needs=access.READ,
    fails=("not-found",),
)
def get_import(import_id: UUID) -> Response:
    """The document as it was imported, its members in the order of their names."""
    response = Response(run(replays.read_import, import_id), mimetype=MEDIA_TYPE)
    response.headers["Cache-Control"] = "private, no-store"
    return response


@records.operation(
    "DELETE",
    "/v1/replays/<uuid:import_id>",
    "deleteImport",
    "Forget an imported replay",
    None,
    status=204,
    bearer="needed",
    needs=access.PLAY,
    fails=("not-found",),
)
def delete_import(import_id: UUID) -> Response:
    """Forget a replay that was imported; games that were played here cannot be deleted so."""
    run(replays.remove_import, import_id, transaction=True)
    return Response(status=204)
