"""The shapes of what hosts ask and are told; see :mod:`service.api.schemas`."""

from typing import Final

from marshmallow import fields, validate

from service.api.schemas import (
    Player,
    QueryInteger,
    Schema,
    instant,
    integer,
    limit,
    text,
    uuid_field,
    words,
)
from service.api.tournament_schemas import MAX_ENTRIES, MAX_LIMIT_MS, id_given, reason
from service.engine.game import LOG_LIMIT
from service.tournaments.invites import MAX_USES
from service.tournaments.model import MAX_ATTEMPTS, MAX_DEALS, MAX_ROUNDS
from service.tournaments.rulings import NEEDED

_KINDS: Final = tuple(NEEDED)
_PARTS: Final = ("director", "viewer")
_CODE: Final = "7K2QF-9XW4M-ABCDE-23456"


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


class NewRole(Schema):
    """What part a player is to have."""

    role = words(
        _PARTS,
        "`director`: acts as the owner does, but for roles and calling it off; `viewer`: sees what "
        "hosts see",
        required=True,
    )


class CoHost(Schema):
    """A player who has a part in hosting a tournament."""

    player = fields.Nested(Player, required=True)
    role = words(_PARTS, "Their part", required=True)
    given_at = instant("Since when", required=True)


class RoleList(Schema):
    """A page of those who have a part; the Link header leads to those before and after it."""

    roles = fields.List(fields.Nested(CoHost), required=True)


class NewInvite(Schema):
    """A code to be."""

    uses = integer(1, MAX_USES, "How many players may enter by it", load_default=1)
    days = integer(1, 365, "Days until it expires; left out, it is good while players may enter")


class Invite(Schema):
    """What is known of a code once its text is forgotten."""

    id = uuid_field("The invite's id")
    created_at = instant("When it was made", required=True)
    expires_at = instant("Until when it is good, where that is told")
    revoked_at = instant("When it was revoked")
    uses = integer(1, MAX_USES, "How many players may enter by it", required=True)
    used = integer(0, MAX_USES, "How many have", required=True)


class NewInviteCode(Invite):
    """A code that lets players enter, which is shown this once."""

    code = text("[0-9A-Z-]{23}", "The code, which is shown this once", _CODE, required=True)


class InviteList(Schema):
    """A page of invites; the Link header leads to those before and after it."""

    invites = fields.List(fields.Nested(Invite), required=True)


class EntryCode(Schema):
    """A code by which another player takes an entry over, which is shown this once."""

    entry = uuid_field("The entry's id")
    code = text("[0-9A-Z-]{23}", "The code, which is shown this once", _CODE, required=True)
    expires_at = instant("Until when it is good", required=True)


class TakingOver(Schema):
    """By which code an entry is taken over."""

    code = text("[0-9A-Za-z-]{1,40}", "The code that a director gave", _CODE, required=True)


class ReportQuery(Schema):
    """How much of a report."""

    limit = limit()


class SharedAddress(Schema):
    """Entries that were made from one address."""

    count = integer(2, MAX_ENTRIES, "How many they are", required=True)
    entries = fields.List(
        uuid_field("An entry's id"),
        required=True,
        metadata={"description": "Their ids; the first 100 where there are more"},
    )


class EqualLog(SharedAddress):
    """Entries that have one log on a deal. Equal logs are common and no proof."""

    deal = integer(1, MAX_DEALS + 1, "The deal", required=True)
    plies = integer(2, LOG_LIMIT, "How many entries the log has", required=True)


class LogsOfDeal(Schema):
    """How common equal logs are on a deal."""

    deal = integer(1, MAX_DEALS + 1, "The deal", required=True)
    attempts = fields.Integer(
        required=True,
        metadata={"description": "Attempts that are over, of two log entries or more"},
    )
    different = fields.Integer(
        required=True, metadata={"description": "How many different logs those have"}
    )


class GroupCounts(Schema):
    """How many groups there are, told or not."""

    addresses = fields.Integer(required=True)
    logs = fields.Integer(required=True)


class Report(Schema):
    """What may point to one person behind several entries: for a human to judge."""

    tournament = uuid_field("The tournament's id")
    as_of = instant("The instant at which it was so", required=True)
    addresses = fields.List(fields.Nested(SharedAddress), required=True)
    logs = fields.List(fields.Nested(EqualLog), required=True)
    deals = fields.List(fields.Nested(LogsOfDeal), required=True)
    groups = fields.Nested(GroupCounts, required=True)
