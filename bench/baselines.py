"""What our routes are held to: a bare Flask route, and the leanest way to do the same by hand.

Run as `python -m bench.baselines`, with the service's own gunicorn settings. The hand-written
routes use Flask, a pool of psycopg and orjson, and the service's two statements. They check no
schema, no token beyond looking it up, no move: what a client sends is taken for legal and entered.
Nothing is replayed and no digest is made; the answers are real ones of the same size, made in
advance, one for each ply of a sample game.
"""

import hashlib
import sys
from datetime import timedelta
from itertools import islice
from typing import Any, Final
from uuid import UUID

import orjson
import psycopg
from flask import Flask, Response, request
from psycopg_pool import ConnectionPool

from bench.play import RULES, SPEC, long_lines
from service import games, view
from service.access import COLUMNS
from service.engine.replay import pack_times
from service.games import EPOCH
from service.server import Server
from service.settings import Settings
from service.store.database import new_id

READ: Final = games._READ  # noqa: SLF001 - the same statements, that is the point
APPEND: Final = games._APPEND  # noqa: SLF001
_ROW: Final = len(COLUMNS)
_LABEL: Final = b"royal-rendezvous/token/1\0"
_MILLISECOND: Final = timedelta(milliseconds=1)


def sample_answers() -> tuple[list[Any], list[Any]]:
    """Return real answers to moves and to reads: for each ply of a sample game one of each."""
    [line] = islice(long_lines("sample"), 1)
    moved, read = [], []
    events_at = Settings().events_at
    for ply in range(len(line.moves) + 1):
        record = games.Record(
            id=new_id(),
            player=new_id(),
            created_at=EPOCH,
            ended_at=None,
            ply=ply,
            score=None,
            hidden=False,
            status=None,
            ruleset=RULES.ruleset.name,
            spec=SPEC,
            seed=line.seed,
            log=bytes(move.code for move in line.moves[:ply]),
            times=bytes(ply),
        )
        game = line.game(ply - 1) if ply else line.game()
        applied = games._attempt(game, line.moves[ply - 1 : ply], new=True) if ply else []  # noqa: SLF001
        read.append(view.game(games._state(record, game, [0] * ply, None), events_at))  # noqa: SLF001
        moved.append(view.game(games._state(record, game, [0] * ply, applied), events_at))  # noqa: SLF001
    return moved, read


def create_app(database_url: str, threads: int) -> Flask:
    """Return the routes as a WSGI application."""
    app = Flask("baselines", static_folder=None)
    pool: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(
        database_url.replace("+psycopg", ""),
        min_size=threads,
        max_size=threads,
        kwargs={"autocommit": True},
        open=False,
    )
    moved, read = sample_answers()
    codes = {text: move.code for text, move in RULES.by_text.items()}

    @app.get("/bare")
    def bare() -> str:
        return "ok"

    def select(connection: psycopg.Connection[Any], game_id: UUID) -> Any:
        token = request.headers["Authorization"].removeprefix("Bearer ")
        fingerprint = hashlib.sha256(_LABEL + token.encode()).digest()
        given = {**READ.fixed, "token": fingerprint, "game": game_id}
        return connection.execute(READ.text, given).fetchone()

    @app.get("/v1/games/<uuid:game_id>")
    def get_game(game_id: UUID) -> Response:
        pool.open()
        with pool.connection() as connection:
            row = select(connection, game_id)
        game = games.Record(*row[_ROW:])
        return Response(orjson.dumps(read[game.ply]), mimetype="application/json")

    @app.post("/v1/games/<uuid:game_id>/moves")
    def make_moves(game_id: UUID) -> Response:
        pool.open()
        body = orjson.loads(request.get_data())
        with pool.connection() as connection:
            row = select(connection, game_id)
            game = games.Record(*row[_ROW:])
            added = bytes(codes[f"{move['from']}:{move['to']}"] for move in body["moves"])
            gap = (row[0] - game.created_at) // _MILLISECOND
            ply = game.ply + len(added)
            connection.execute(
                APPEND.text,
                {
                    **APPEND.fixed,
                    "judged": row[0],
                    "within": games.WRITTEN_WITHIN,
                    "game": game_id,
                    "seen": body["ply"],
                    "codes": added,
                    "gaps": pack_times([gap] * len(added)),
                    "ply": ply,
                    "status": None,
                    "score": None,
                    "ended_at": None,
                },
            )
        return Response(orjson.dumps(moved[ply % len(moved)]), mimetype="application/json")

    return app


class Baselines(Server):
    """The service's server, with these routes in place of ours."""

    def load(self) -> Flask:
        """Return the application."""
        return create_app(self.settings.database_url, self.settings.threads)


if __name__ == "__main__":
    sys.argv = ["baselines"]
    Baselines(Settings.from_environment()).run()
