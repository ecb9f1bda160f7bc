"""The shapes of what hosts ask and are told; see :mod:`service.api.schemas`."""

from typing import Final

from marshmallow import fields, validate

from service.api.schemas import (
    QueryInteger,
    Schema,
    instant,
    integer,
    limit,
    uuid_field,
    words,
)
from service.api.tournament_schemas import MAX_LIMIT_MS, id_given, reason
from service.engine.game import LOG_LIMIT
from service.tournaments.model import MAX_ATTEMPTS, MAX_DEALS, MAX_ROUNDS
from service.tournaments.rulings import NEEDED

_KINDS: Final = tuple(NEEDED)


class Terms(Schema):
    """What stands in place of which part of an attempt's result."""

    won = integer(0, 1, "Whether it was won")
    cards = integer(0, 104, "Cards on foundations")
    entries = integer(0, LOG_LIMIT, "Log entries")
    time = integer(0, 10**12, "ms until the last entry")


class NewRuling(Schema):
    """A ruling to be; which members are needed depends on its kind."""

    kind = words(_KINDS, "What it does", required=True)
    entry = id_given("The entry: for all kinds, but not to extend a round")
    deal = integer(1, MAX_DEALS + 1, "The deal: to annul, adjust or extend an attempt")
    attempt = integer(1, MAX_ATTEMPTS, "Which attempt at it: to annul, adjust or extend one")
    round = integer(1, MAX_ROUNDS, "The round: to admit an entry, or to extend it")
    terms = fields.Nested(Terms)
    ms = integer(1, MAX_LIMIT_MS, "By how much to extend")
    reason = reason(required=True)


class Ruling(Schema):
    """A ruling."""

    number = integer(1, 10**9, "From 1, in their order", required=True)
    at = instant("When it was made", required=True)
    kind = words((*_KINDS, "reverse"), "What it does", required=True)
    by = uuid_field("The player who made it; told to hosts", required=False)
    entry = uuid_field("The entry that it is about", required=False)
    deal = integer(1, MAX_DEALS + 1, "The deal")
    attempt = integer(1, MAX_ATTEMPTS, "Which attempt at it")
    round = integer(1, MAX_ROUNDS, "The round")
    terms = fields.Nested(Terms)
    ms = integer(1, MAX_LIMIT_MS, "By how much it extends")
    reverses = integer(1, 10**9, "Number of the ruling that this one takes back")
    reason = fields.String(required=True, metadata={"description": "Why"})
    reversed_by = integer(1, 10**9, "Number of the ruling that takes this one back")


class RulingList(Schema):
    """Rulings, the earliest first."""

    rulings = fields.List(fields.Nested(Ruling), required=True)


class RulingQuery(Schema):
    """Which rulings."""

    after = QueryInteger(
        load_default=0,
        validate=validate.Range(0, 10**9 - 1),
        metadata={"description": "Rulings after the one of this number"},
    )
    limit = limit()
