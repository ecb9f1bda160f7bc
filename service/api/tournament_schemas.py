"""The shapes of requests about tournaments and of their answers; see :mod:`service.api.schemas`."""

from datetime import UTC, datetime
from typing import Any, Final

import marshmallow as ma
from marshmallow import fields, validate

from service.api.schemas import (
    HEX_64,
    STATUSES,
    PageQuery,
    Player,
    QueryInstant,
    QueryInteger,
    Schema,
    SelfLink,
    instant,
    integer,
    limit,
    line,
    query_instant,
    text,
    uuid_field,
    words,
)
from service.engine import DEFAULT_RULESET, RULESETS
from service.engine.standings import KEYS
from service.schedule import ROUND_STATES, STATES
from service.tournaments.model import KINDS, MAX_ATTEMPTS, MAX_DEALS, MAX_ROUNDS
from service.tournaments.templates import EVERY, MAX_SERIES, TEMPLATES

MAX_LIMIT_MS: Final = 30 * 24 * 3600 * 1000
MAX_ENTRIES: Final = 100_000
MAX_TITLE: Final = 120
EARLIEST, LATEST = 2000, 9000
"""Years between which tournaments lie."""

_CONTROLS: Final = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
_VISIBILITIES: Final = ("public", "unlisted", "private")
_ENTRY_BY: Final = ("open", "code")
_REVEALS: Final = ("closing", "by-hand")
_CHOICES: Final = ("best", "first", "last")
_BETTER: Final = ("more", "less")
_CUT_BY: Final = ("top", "cards", "won")
_UUID: Final = "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_SOME_ID: Final = "019c13ec-9e00-710f-8000-000000000001"


def _prose(description: str, **options: Any) -> fields.String:
    return text(
        rf"[^{_CONTROLS}]{{0,2000}}",
        f"{description}, up to 2,000 characters",
        "Ten deals, one evening.",
        **options,
    )


class PlannedInstant(QueryInstant):
    """An instant that somebody plans, in whole ms, not far away."""

    def _deserialize(self, value: Any, *args: Any, **options: Any) -> datetime:
        given = super()._deserialize(value, *args, **options)
        if not EARLIEST <= given.year <= LATEST:
            raise ma.ValidationError(f"not from {EARLIEST} to {LATEST}")
        given = given.astimezone(UTC)
        return given.replace(microsecond=given.microsecond // 1000 * 1000)


def planned(description: str, **options: Any) -> PlannedInstant:
    """Return a field for an instant that is planned."""
    return PlannedInstant(
        metadata={
            "description": f"{description}, RFC 3339, to the ms",
            "format": "date-time",
            "example": "2026-01-31T19:00:00.000Z",
        },
        **options,
    )


def reason(**options: Any) -> fields.String:
    """Return a field for why something is done."""
    return line(500, "Why, for those who take part", "the hall's network was down", **options)


def id_given(description: str, **options: Any) -> fields.String:
    """Return a field for an id that is given."""
    return text(_UUID, description, _SOME_ID, **options)


class Comparison(Schema):
    """What is compared."""

    key = words(
        tuple(KEYS),
        "Of what: won attempts, cards on foundations, deals of which "
        "something counts, log entries, or ms until the last entry",
        required=True,
    )
    better = words(
        _BETTER,
        "Which of two values is better; left out: more of won, cards and "
        "deals, less of entries and time",
    )


class Scoring(Schema):
    """How results are compared and put together.

    Left out: won, cards, fewer entries, less time; the best attempt; all deals.
    """

    keys = fields.List(
        fields.Nested(Comparison),
        required=True,
        validate=validate.Length(1, len(KEYS)),
        metadata={
            "description": "One after the other, each once. Less of something can be better "
            "only after more cards or more deals: else whoever does not play would be ahead"
        },
    )
    attempts = words(
        _CHOICES,
        "Which of several attempts at a deal counts: the best (of equal "
        "ones the earliest), the first or the last",
        load_default="best",
    )
    best = integer(1, MAX_DEALS, "How many deals count, the best ones; left out, all")


class Cut(Schema):
    """Who may play a round, by the standings overall before it."""

    by = words(_CUT_BY, "`top`: the rank; else what the total must have", required=True)
    value = integer(
        1,
        10**6,
        "The last rank, shared ones included; or the least that the total must have",
        required=True,
    )


class NewRound(Schema):
    """A round to be. Without a cut all may play it, but for those whom an earlier one cut off."""

    starts_at = planned("From when on attempts may be started", required=True)
    ends_at = planned("From when on none may; those under way end", required=True)
    deals = integer(1, MAX_DEALS, "How many deals it has", required=True)
    cut = fields.Nested(Cut)


class NewEntryRules(Schema):
    """Who may enter, and when."""

    by = words(_ENTRY_BY, "`open`, or `code` for those who have an invite code")
    opens_at = planned("From when on players may enter; left out, from now on")
    closes_at = planned("From when on they may not; left out, when the first round ends")
    capacity = integer(1, MAX_ENTRIES, "Most entries at a time; left out, any number")


class EntryRulesChange(NewEntryRules):
    """What is to change of who may enter, and when."""

    capacity = integer(0, MAX_ENTRIES, "Most entries at a time; 0 for any number")


class _Planned(Schema):
    """What a tournament may be told to be, but for instants."""

    template = words(tuple(TEMPLATES), "What is left out is as this template has it")
    title = line(MAX_TITLE, "Shown to others; needed without a template", "Thursday's ten deals")
    about = _prose("Shown to others")
    ruleset = words(tuple(RULESETS), f"Which game is played; left out, `{DEFAULT_RULESET}`")
    visibility = words(
        _VISIBILITIES,
        "`public`: listed, for all to see; `unlisted`: for whoever "
        "has the id; `private`: for those who take part or host it; left out, `public`",
    )
    attempts = integer(1, MAX_ATTEMPTS, "Attempts that each may make at a deal; left out, 1")
    limit_ms = integer(
        1000, MAX_LIMIT_MS, "How long an attempt may take, at most; left out, until its round ends"
    )
    scoring = fields.Nested(Scoring)
    warm_up = fields.Boolean(
        truthy={True},
        falsy={False},
        metadata={"description": "Whether there is a further deal, which never counts"},
    )
    reveal = words(
        _REVEALS,
        "When seeds may be known: `closing`, as soon as nothing played in "
        "their round can change; `by-hand`, when the host says so; left out, `closing`",
    )


class NewTournament(_Planned):
    """A tournament to be. It has rounds, or a template and the instant at which it starts."""

    entry = fields.Nested(NewEntryRules)
    starts_at = planned("When the first round of the template starts")
    rounds = fields.List(
        fields.Nested(NewRound),
        validate=validate.Length(1, MAX_ROUNDS),
        metadata={"description": "Needed without a template"},
    )


def _clock(description: str, **options: Any) -> fields.String:
    return text("([01][0-9]|2[0-3]):[0-5][0-9]", description, "19:00", **options)


class WallTime(Schema):
    """A time that clocks in the zone show."""

    day = integer(-60, 60, "So many days after the date; left out, on it", load_default=0)
    time = _clock("The time of the day", required=True)


class SeriesRound(Schema):
    """A round of each tournament of a series."""

    starts = fields.Nested(WallTime, required=True)
    ends = fields.Nested(WallTime, required=True)
    deals = integer(1, MAX_DEALS, "How many deals it has", required=True)
    cut = fields.Nested(Cut)


class SeriesEntryRules(Schema):
    """Who may enter each tournament of a series, and when.

    Left out: from now on, and until the first round ends.
    """

    by = words(_ENTRY_BY, "`open`, or `code` for those who have an invite code")
    opens = fields.Nested(WallTime)
    closes = fields.Nested(WallTime)
    capacity = integer(1, MAX_ENTRIES, "Most entries at a time; left out, any number")


class NewSeries(_Planned):
    """Tournaments to be, alike but for their dates.

    They have rounds, or a template and the time of the day at which it starts.
    """

    title = line(
        MAX_TITLE,
        "Shown to others, each with its date in place of `{date}`; left out, the template's and "
        "the date; needed without a template",
        "Ten deals of {date}",
    )
    entry = fields.Nested(SeriesEntryRules)
    at = _clock("When, on each date, the first round of the template starts")
    rounds = fields.List(
        fields.Nested(SeriesRound),
        validate=validate.Length(1, MAX_ROUNDS),
        metadata={"description": "Needed without a template"},
    )
    zone = text(
        "[A-Za-z0-9_+/-]{1,64}", "The IANA time zone of all times", "Europe/Berlin", required=True
    )
    first = text(
        "2[01][0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
        "The first date",
        "2026-10-24",
        required=True,
    )
    every = words(tuple(EVERY), "How far apart the dates are", required=True)
    count = integer(1, MAX_SERIES, "How many tournaments", required=True)


class TournamentChange(Schema):
    """What is to change; what is left out stays."""

    title = line(MAX_TITLE, "Shown to others", "Thursday's ten deals")
    about = _prose("Shown to others")
    ruleset = words(tuple(RULESETS), "Which game is played")
    visibility = words(_VISIBILITIES, "Who sees it")
    entry = fields.Nested(EntryRulesChange)
    attempts = integer(1, MAX_ATTEMPTS, "Attempts that each may make at a deal")
    limit_ms = integer(0, MAX_LIMIT_MS, "How long an attempt may take; 0 for until its round ends")
    scoring = fields.Nested(Scoring)
    warm_up = fields.Boolean(
        truthy={True},
        falsy={False},
        metadata={"description": "Whether there is a further deal, which never counts"},
    )
    reveal = words(_REVEALS, "When seeds may be known")
    rounds = fields.List(
        fields.Nested(NewRound),
        validate=validate.Length(1, MAX_ROUNDS),
        metadata={"description": "All rounds, in place of those that there are"},
    )
    reason = reason()


class WithReason(Schema):
    """Why."""

    reason = reason(required=True)


class Entering(Schema):
    """How somebody enters."""

    code = text("[0-9A-Za-z-]{1,40}", "An invite code", "7K2QF-9XW4M-ABCDE-23456")


class Attempting(Schema):
    """Which deal."""

    deal = integer(1, MAX_DEALS + 1, "The deal's number", required=True)


class TournamentQuery(PageQuery):
    """Which tournaments, and which page of their list."""

    which = words(
        ("public", "hosted", "entered"),
        "The public ones, those that one has a part in hosting, or those that one has entered",
        load_default="public",
    )
    ruleset = words(tuple(RULESETS), "Tournaments of this ruleset")
    series = id_given("Tournaments of this series")
    ends_after = query_instant("Tournaments that end after this instant")
    starts_before = query_instant("Tournaments that start before this instant")


_ROUND: Final = QueryInteger(
    load_default=0,
    validate=validate.Range(0, MAX_ROUNDS),
    data_key="round",
    metadata={"description": "The round; 0 for all together"},
)
_VIEW = words(
    ("public", "live"), "`live` sees through a freeze, for those who host it", load_default="public"
)


class StandingsQuery(PageQuery):
    """Which standings, and which page of them."""

    cursor = text(
        "[-_A-Za-z0-9]{1,128}",
        "From a Link header of another page of the same standings",
        "AAGcE-yeCHR-gAAAAAAAAAlQ1dqyPZdN",
    )
    number = _ROUND
    view = _VIEW


class AroundQuery(Schema):
    """Which standings, and how many around."""

    number = _ROUND
    view = _VIEW
    each = QueryInteger(
        load_default=5,
        validate=validate.Range(0, 50),
        metadata={"description": "Most rows on either side"},
    )
    entry = id_given("The entry; left out, one's own")


class EventQuery(Schema):
    """Which events."""

    after = QueryInteger(
        load_default=0,
        validate=validate.Range(0, 10**9 - 1),
        metadata={"description": "Events after the one of this number"},
    )
    limit = limit()


class TournamentDeal(Schema):
    """A deal of a tournament."""

    number = integer(1, MAX_DEALS + 1, "Its number", required=True)
    counts = fields.Boolean(required=True, metadata={"description": "False for the warm-up"})
    commitment = text(HEX_64, "To its seed, once the tournament is published", "0" * 64)
    seed = text("[!-~]{1,64}", "Its seed, once it is revealed", "0" * 64)


class Round(Schema):
    """A round."""

    number = integer(1, MAX_ROUNDS, "From 1", required=True)
    state = words(ROUND_STATES, "Where it is", required=True)
    starts_at = instant("From when on attempts may be started", required=True)
    ends_at = instant("From when on none may", required=True)
    closes_at = instant("The last deadline of an attempt", required=True)
    reveals_at = instant("From when on its seeds may be known, where that is told")
    cut = fields.Nested(Cut)
    deals = fields.List(fields.Nested(TournamentDeal), required=True)


class EntryRules(Schema):
    """Who may enter, and when."""

    by = words(_ENTRY_BY, "`open`, or `code`", required=True)
    opens_at = instant("From when on players may enter", required=True)
    closes_at = instant("From when on they may not", required=True)
    capacity = integer(1, MAX_ENTRIES, "Most entries at a time; absent for any number")
    entries = integer(0, MAX_ENTRIES, "Entries now", required=True)


class Condition(Schema):
    """What has to be so for the viewer to enter."""

    name = words(("entry-open", "place-left", "code"), "Which one", required=True)
    met = fields.Boolean(required=True)
    detail = fields.String(required=True)


class ToldScoring(Schema):
    """How results are compared and put together."""

    keys = fields.List(fields.Nested(Comparison), required=True)
    attempts = words(_CHOICES, "Which of several attempts counts", required=True)
    best = integer(1, MAX_DEALS, "How many deals count, where not all do")


class TournamentLinks(Schema):
    """Where things of this tournament are."""

    self = fields.String(required=True)
    entries = fields.String(required=True)
    attempts = fields.String(required=True)
    standings = fields.String(required=True)
    acts = fields.String(required=True)
    events = fields.String(required=True)


class Tournament(Schema):
    """A tournament as its viewer sees it."""

    id = uuid_field("The tournament's id")
    version = integer(1, 10**9, "Grows with each change of what is told here", required=True)
    state = words(STATES, "Where it is, by the clock", required=True)
    title = fields.String(required=True)
    about = fields.String()
    owner = fields.Nested(Player, required=True)
    created_at = instant("When it was made", required=True)
    published_at = instant("When it was published")
    frozen_at = instant("When its standings were frozen, if they are")
    finalised_at = instant("When its results were made final, if they are")
    cancelled_at = instant("When it was called off")
    series = uuid_field("What it has in common with others made together", required=False)
    ruleset = fields.String(required=True)
    visibility = words(_VISIBILITIES, "Who sees it", required=True)
    entry = fields.Nested(EntryRules, required=True)
    attempts = integer(1, MAX_ATTEMPTS, "Attempts at a deal", required=True)
    limit_ms = integer(1000, MAX_LIMIT_MS, "How long an attempt may take, at most")
    scoring = fields.Nested(ToldScoring, required=True)
    warm_up = fields.Boolean(required=True)
    reveal = words(_REVEALS, "When seeds may be known", required=True)
    rounds = fields.List(fields.Nested(Round), required=True)
    results = integer(0, 10**9, "Number of its latest final results, 0 for none", required=True)
    conditions = fields.List(
        fields.Nested(Condition),
        required=True,
        metadata={"description": "What has to be so for the viewer to enter, in this order"},
    )
    role = words(("owner", "director", "viewer", "admin"), "The viewer's part in hosting it")
    own_entry = uuid_field("The viewer's entry", required=False)
    links = fields.Nested(TournamentLinks, required=True)


class TournamentSummary(Schema):
    """A tournament as lists give it."""

    id = uuid_field("The tournament's id")
    title = fields.String(required=True)
    ruleset = fields.String(required=True)
    state = words(STATES, "Where it is, by the clock", required=True)
    entries = integer(0, MAX_ENTRIES, "Entries now", required=True)
    capacity = integer(1, MAX_ENTRIES, "Most entries at a time")
    starts_at = instant("When its first round starts", required=True)
    ends_at = instant("When its last round ends", required=True)
    links = fields.Nested(SelfLink, required=True)


class TournamentList(Schema):
    """A page of tournaments; the Link header leads to those before and after it."""

    tournaments = fields.List(fields.Nested(TournamentSummary), required=True)


class MadeSeries(Schema):
    """A series that was made."""

    series = uuid_field("What its tournaments have in common; lists of tournaments filter by it")
    tournaments = fields.List(
        fields.Nested(TournamentSummary),
        required=True,
        metadata={"description": "In the order of their dates"},
    )


class Offset(Schema):
    """How long after a template's start something is."""

    days = fields.Integer(required=True, metadata={"description": "Calendar days"})
    minutes = fields.Integer(required=True, metadata={"description": "Minutes after that"})


class TemplateRound(Schema):
    """A round of a template."""

    starts = fields.Nested(Offset, required=True)
    ends = fields.Nested(Offset, required=True)
    deals = integer(1, MAX_DEALS, "How many deals it has", required=True)


class Template(Schema):
    """A tournament without instants."""

    name = words(tuple(TEMPLATES), "By which it is asked for", required=True)
    title = fields.String(required=True)
    about = fields.String(required=True)
    attempts = integer(1, MAX_ATTEMPTS, "Attempts at a deal", required=True)
    limit_ms = integer(1000, MAX_LIMIT_MS, "How long an attempt may take, at most")
    scoring = fields.Nested(ToldScoring, required=True)
    warm_up = fields.Boolean(required=True)
    reveal = words(_REVEALS, "When seeds may be known", required=True)
    rounds = fields.List(fields.Nested(TemplateRound), required=True)


class TemplateList(Schema):
    """All templates."""

    templates = fields.List(fields.Nested(Template), required=True)


class AttemptCounts(Schema):
    """Attempts at a deal. One that was started counts, however little of it was played."""

    allowed = fields.Integer(required=True)
    started = fields.Integer(required=True)
    finished = fields.Integer(required=True)
    left = fields.Integer(required=True)


class AttemptSummary(Schema):
    """An attempt: a game."""

    id = uuid_field("The game's id")
    attempt = integer(1, MAX_ATTEMPTS, "Which attempt at the deal it is", required=True)
    status = words(STATUSES, "How it stands", required=True)
    score = integer(0, 104, "Cards on foundations at the end")
    created_at = instant("When it was started", required=True)
    deadline = instant("Until when it may be played", required=True)
    ended_at = instant("When it ended")
    links = fields.Nested(SelfLink, required=True)


class EntryDeal(Schema):
    """A deal, and what the entry has played of it."""

    number = integer(1, MAX_DEALS + 1, "Its number", required=True)
    round = integer(1, MAX_ROUNDS, "Its round", required=True)
    attempts = fields.Nested(AttemptCounts, required=True)
    games = fields.List(fields.Nested(AttemptSummary), required=True)


class Entry(Schema):
    """One's own entry."""

    id = uuid_field("The entry's id")
    tournament = uuid_field("The tournament's id")
    joined_at = instant("When it was made", required=True)
    withdrawn_at = instant("When it was withdrawn")
    status = words(("active", "withdrawn", "disqualified"), "How it stands", required=True)
    plays_up_to_round = integer(
        1, MAX_ROUNDS, "The last round that it may play as things are", required=True
    )
    deals = fields.List(fields.Nested(EntryDeal), required=True)
    links = fields.Nested(SelfLink, required=True)


class Total(Schema):
    """What counting deals come to."""

    won = fields.Integer(required=True, metadata={"description": "Attempts won"})
    cards = fields.Integer(required=True, metadata={"description": "Cards on foundations"})
    entries = fields.Integer(required=True, metadata={"description": "Log entries"})
    time = fields.Integer(required=True, metadata={"description": "ms until the last entries"})
    deals = fields.Integer(required=True, metadata={"description": "Deals that count"})


class Cell(Schema):
    """The attempt at a deal that counts."""

    deal = fields.Integer(required=True)
    attempt = fields.Integer(required=True)
    won = fields.Integer(required=True)
    cards = fields.Integer(required=True)
    entries = fields.Integer(required=True)
    time = fields.Integer(required=True)
    counts = fields.Boolean(required=True, metadata={"description": "Whether it is in the total"})
    verification = words(("pending", "valid"), "Whether its log was judged again", required=True)
    adjusted = fields.Boolean(metadata={"description": "True where a ruling changed the result"})


class StandingsRow(Schema):
    """An entry's place."""

    entry = uuid_field("The entry's id")
    player = fields.Nested(Player, required=True)
    rank = integer(
        1,
        MAX_ENTRIES,
        "One more than the number of entries that are better; equal ones "
        "share it. Absent for who has left or was disqualified, and in a round for who does not "
        "play it",
    )
    position = integer(1, MAX_ENTRIES, "Its own, for paging alone", required=True)
    status = words(("active", "withdrawn", "disqualified"), "How the entry stands", required=True)
    reach = fields.Integer(
        required=True,
        metadata={"description": "The last round that it may play; who came further is ahead"},
    )
    total = fields.Nested(Total, required=True)
    cells = fields.List(fields.Nested(Cell), required=True)


class Standings(Schema):
    """A part of the standings, all of one instant."""

    tournament = uuid_field("The tournament's id")
    round = integer(0, MAX_ROUNDS, "The round; 0 for all together", required=True)
    view = words(("live", "frozen"), "Whether they are as they were when frozen", required=True)
    as_of = instant("The instant at which they were so", required=True)
    event = integer(0, 10**9, "Number of the last event that is in them")
    scoring = fields.Nested(ToldScoring, required=True)
    rows = fields.List(fields.Nested(StandingsRow), required=True)


class Happening(Schema):
    """Something that was done, or that came about."""

    number = integer(
        1, 10**9, "They are numbered in order; some are the hosts' alone", required=True
    )
    at = instant("When; never before the one before", required=True)
    kind = fields.String(required=True)
    public = fields.Boolean(metadata={"description": "Whether others than the hosts are told"})
    by = uuid_field("The player who did it; told to hosts", required=False)
    entry = uuid_field("The entry that it is about", required=False)
    reason = fields.String(metadata={"description": "Why"})
    data = fields.Dict(metadata={"description": "What else there is to say of this kind"})


class HappeningList(Schema):
    """Events, the earliest first."""

    events = fields.List(fields.Nested(Happening), required=True)


class Judging(Schema):
    """Why attempts are judged again."""

    reason = reason(required=True)


class JudgedAttempt(Schema):
    """An attempt that is not valid, or is again."""

    game = uuid_field("The game's id")
    entry = uuid_field("The entry's id")
    deal = integer(1, MAX_DEALS + 1, "The deal's number", required=True)
    attempt = integer(1, MAX_ATTEMPTS, "Which attempt at the deal it is", required=True)
    digest = text(HEX_64, "The digest at which it is valid", "0" * 64)
    why = fields.String(metadata={"description": "What is wrong with it"})


class ChangedEntry(Schema):
    """An entry whose standings would change."""

    entry = uuid_field("The entry's id")
    before = fields.Nested(Total)
    after = fields.Nested(Total, required=True)


class MovedRank(Schema):
    """An entry whose rank overall would change; a rank that is absent is none."""

    entry = uuid_field("The entry's id")
    before = integer(1, MAX_ENTRIES, "Its rank as it is")
    after = integer(1, MAX_ENTRIES, "Its rank as it would be")


class FindingCounts(Schema):
    """How many there are of each; the lists name 1,000 at most."""

    invalid = fields.Integer(required=True)
    restored = fields.Integer(required=True)
    changed = fields.Integer(required=True)
    ranks = fields.Integer(required=True)


class Findings(Schema):
    """What a rejudging would change."""

    invalid = fields.List(
        fields.Nested(JudgedAttempt),
        required=True,
        metadata={"description": "Attempts that would leave the standings"},
    )
    restored = fields.List(
        fields.Nested(JudgedAttempt),
        required=True,
        metadata={"description": "Attempts that would come back into them"},
    )
    changed = fields.List(fields.Nested(ChangedEntry), required=True)
    ranks = fields.List(fields.Nested(MovedRank), required=True)
    counts = fields.Nested(FindingCounts, required=True)


class Job(Schema):
    """Attempts judged again, and how far that is."""

    id = uuid_field("The job's id")
    tournament = uuid_field("The tournament's id")
    kind = words(("verification", "rejudging"), "What it does", required=True)
    by = uuid_field("The player who began it")
    reason = fields.String(metadata={"description": "Why"})
    state = words(
        ("running", "done", "proposed", "applied", "dropped", "failed"),
        "`proposed`: what it found is to be applied or dropped; `failed`: something could not be "
        "judged at all, and whoever runs the service finds it by its log and `rendezvous audit`",
        required=True,
    )
    started_at = instant("When it began", required=True)
    finished_at = instant("When it was done or proposed, applied, dropped or failed")
    total = integer(0, 10**9, "Attempts that are to be judged", required=True)
    done = integer(0, 10**9, "Those that are", required=True)
    findings = fields.Nested(Findings)
    links = fields.Nested(SelfLink, required=True)


class ResultsQuery(Schema):
    """The form of results."""

    format = words(
        ("json", "ndjson", "csv"),
        "The form; left out, what `Accept` asks for, or else `json`",
    )


class Results(Schema):
    """Results as they were made final."""

    document = fields.Dict(
        required=True,
        metadata={
            "description": "What is signed, a document `results-1`: its JSON Schema is "
            "`/schemas/results-1.json`"
        },
    )
    digest = text(HEX_64, "Of the document", "0" * 64, required=True)
    signature = text(
        "[-_A-Za-z0-9.]{1,4096}", "A compact JWS by this service, if it has keys", "e30.e30.AA"
    )


class ResultsLine(Schema):
    """A line of results: the document but for its entries; one of these; or at the end a count."""

    document = fields.Dict()
    digest = text(HEX_64, "Of the whole document", "0" * 64)
    signature = text("[-_A-Za-z0-9.]{1,4096}", "A compact JWS", "e30.e30.AA")
    entry = fields.Dict()
    end = fields.Boolean(metadata={"description": "Stands in the last line alone"})
    count = integer(0, 2**53 - 1, "Number of lines before the last")


class NewWebhook(Schema):
    """Where events are to be posted, and which."""

    url = text(
        "https?://[!-~]{1,490}",
        "Where to: `https`, at an address of the public Internet",
        "https://example.org/rendezvous",
        required=True,
    )
    kinds = fields.List(
        words(KINDS, "A kind of event"),
        validate=validate.Length(1, len(KINDS)),
        metadata={"description": "Events of these kinds; left out, all"},
    )


class WebhookLinks(Schema):
    """Where things of this webhook are."""

    self = fields.String(required=True)
    deliveries = fields.String(required=True)
    redeliveries = fields.String(required=True)


class Webhook(Schema):
    """Where events are posted."""

    id = uuid_field("The webhook's id")
    tournament = uuid_field("The tournament's id")
    created_at = instant("When it was made", required=True)
    by = uuid_field("The player who made it")
    url = fields.String(required=True)
    kinds = fields.List(fields.String(), metadata={"description": "Of which events; absent: all"})
    done = integer(
        0,
        10**9,
        "Number of the last event that was delivered, or is of no such kind",
        required=True,
    )
    failures = integer(0, 10**9, "How often the next one has failed", required=True)
    disabled_at = instant("When it was given up")
    links = fields.Nested(WebhookLinks, required=True)


class MadeWebhook(Schema):
    """A new webhook, and its secret: told this once."""

    webhook = fields.Nested(Webhook, required=True)
    secret = fields.String(
        required=True,
        metadata={"description": "What messages are signed with (Standard Webhooks, `whsec_...`)"},
    )


class WebhookList(Schema):
    """A tournament's webhooks."""

    webhooks = fields.List(fields.Nested(Webhook), required=True)


class Delivery(Schema):
    """An event that was posted, or was to be."""

    id = uuid_field("The delivery's id")
    number = integer(1, 10**9, "The event's number", required=True)
    attempt = integer(1, 10**9, "Which attempt at it this was", required=True)
    at = instant("When it was over", required=True)
    status = fields.Integer(metadata={"description": "The answer's status, if there was one"})
    error = fields.String(metadata={"description": "What went wrong, if anything did"})


class DeliveryList(Schema):
    """A page of deliveries; the Link header leads to those before and after it."""

    deliveries = fields.List(fields.Nested(Delivery), required=True)


class Redelivery(Schema):
    """Which events to post again."""

    first = integer(1, 10**9, "Number of the first event", required=True, data_key="from")
    last = integer(1, 10**9, "Number of the last one", required=True, data_key="to")
