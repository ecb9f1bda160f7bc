"""What a client sees of a game: JSON-ready values in which hidden cards have no place.

Only what lies face up is read here, and of the stock its number of cards, so that two games that
differ in unseen cards alone give equal answers.
"""

from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from service.engine import Move, Table, canonical_seed, deal, table
from service.engine.cards import EMPTY, NOTHING, TEXTS, render_cards
from service.engine.moves import STOCK
from service.engine.position import Position
from service.games import TIMED_OUT, Applied, Record, State, Summary

Json = dict[str, Any]

ROOT: Final = "/v1"


def instant(value: datetime) -> str:
    """Return an instant as RFC 3339 in UTC with ms: ``2026-01-31T12:00:00.000Z``."""
    # A database may tell its instants in the time zone that it is set to.
    value = value.astimezone(UTC)
    return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"


def game(state: State, events_at: str) -> Json:
    """Return a game as clients read it.

    Args:
        state: The game.
        events_at: The URL below which live events are; see :attr:`Settings.events_at`.
    """
    record, played, position = state.record, state.game, state.game.position
    rules = played.rules
    complete = played.ply == record.ply
    status = record.status if complete and record.status else played.status
    path = f"{ROOT}/games/{record.id}"
    answer: Json = {
        "id": state.header["id"],
        "header": state.header,
        "ruleset": record.ruleset,
        "deal": state.header["deal"],
        "created_at": instant(record.created_at),
        "ply": played.ply,
        "status": status,
        "score": position.score,
        "digest": state.digest,
        "foundations": [_foundation(rules, f, want) for f, want in enumerate(position.wants)],
        "reserve": [
            _reserve(n + 1, number) for n, number in enumerate(position.tops[: rules.reserve])
        ],
        "waste": [TEXTS[number] for number in position.waste],
        "stock": len(position.stock),
        "legal_moves": legal_moves(state),
        "undos": played.undos,
        "hints": played.hints,
        "links": {
            "self": path,
            "moves": f"{path}/moves",
            "replay": f"{path}/replay",
            "events": f"{events_at}{path}/events",
        },
    }
    if rules.ruleset.columns:
        answer["columns"] = [
            {"id": f"c{n + 1}", "cards": [TEXTS[number] for number in column]}
            for n, column in enumerate(position.columns)
        ]
    if rules.ruleset.redeals:
        answer["redeals"] = position.redeals
    if complete and record.ended_at is not None:
        answer["ended_at"] = instant(record.ended_at)
    if state.record.revealed_seed is not None:
        answer["seed"] = state.record.revealed_seed
    if state.applied is not None:
        answer["applied"] = list(map(_applied, state.applied))
    return answer


def legal_moves(state: State) -> list[Json]:
    """Return the legal moves as commands, ready to be sent."""
    if state.record.status == TIMED_OUT and state.game.ply == state.record.ply:
        return []
    position = state.game.position
    return [_command(move, _visible_card(position, move)) for move in state.game.legal_moves()]


def _visible_card(position: Position, move: Move) -> int:
    return EMPTY if move.source == STOCK else position.moved_card(move)


@cache
def _command(move: Move, number: int) -> Json:
    card = {} if number == EMPTY else {"card": TEXTS[number]}
    return {"from": move.origin, "to": move.destination, **card}


@cache
def _foundation(rules: Table, foundation: int, want: int) -> Json:
    chain = rules.chains[foundation]
    cards = rules.heights[foundation][want]
    return {
        "id": rules.foundations[foundation],
        "cards": cards,
        **({"top": TEXTS[chain[cards - 1]]} if cards else {}),
        **({"wants": TEXTS[want]} if want < NOTHING else {}),
    }


@cache
def _reserve(number: int, card: int) -> Json:
    place = {"id": f"r{number}"}
    return place if card == EMPTY else {**place, "card": TEXTS[card]}


def _applied(applied: Applied) -> Json:
    return {
        "ply": applied.ply,
        "ms": applied.ms,
        "move": applied.entry,
        **({} if applied.card is None else {"card": applied.card}),
        "effects": [{"move": text, "card": card} for text, card in applied.effects],
    }


def outcome(record: Record) -> Json:
    """Return how a game ended."""
    return {
        "id": str(record.id),
        "ply": record.ply,
        **({} if record.status is None else {"status": record.status}),
        **({} if record.score is None else {"score": record.score}),
        **({} if record.ended_at is None else {"ended_at": instant(record.ended_at)}),
    }


def summary(game: Summary) -> Json:
    """Return a game as lists give it."""
    return {
        "id": str(game.id),
        "ruleset": game.ruleset,
        "created_at": instant(game.created_at),
        "ply": game.ply,
        "status": game.status,
        **({} if game.score is None else {"score": game.score}),
        **({} if game.ended_at is None else {"ended_at": instant(game.ended_at)}),
        "links": {"self": f"{ROOT}/games/{game.id}"},
    }


def layout(ruleset: str, spec: str, seed: str) -> Json:
    """Return a deal as clients read it, every card of it."""
    cards = deal(spec, ruleset, seed)
    answer: Json = {
        "ruleset": ruleset,
        "spec": spec,
        "seed": canonical_seed(spec, seed),
        "reserve": render_cards(cards.reserve),
        "stock": render_cards(cards.stock),
    }
    if table(ruleset).ruleset.columns:
        answer["columns"] = [render_cards(column) for column in cards.columns]
    return answer
