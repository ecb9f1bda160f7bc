"""The shapes of requests, which are loaded by them, and of answers, which tests hold to them."""

import re
from datetime import datetime
from typing import Any, Final, Self

import marshmallow as ma
from marshmallow import fields, validate

from service.engine import DEAL_SPECS, DEFAULT_RULESET, RULESETS
from service.engine.cards import RANKS, SUITS
from service.engine.deals import DEFAULT_SPEC
from service.engine.game import LOG_LIMIT
from service.games import MAX_BATCH
from service.settings import LONGEST_WINDOW
from service.tokens import SCOPES

_FAMILIES: Final = "|".join(
    dict.fromkeys(family.name for row in RULESETS.values() for family in row.families)
)
FOUNDATION: Final = rf"({_FAMILIES})-[{SUITS}]"
PLACE: Final = rf"(stock|waste|r([1-9]|1[0-6])|c[1-4]|{FOUNDATION})"
CARD: Final = rf"[{RANKS}][{SUITS}]"
ENTRY: Final = rf"({PLACE}:{PLACE}|undo|resign|hint)"
HEX_64: Final = "[0-9a-f]{64}"
MAX_LIMIT: Final = 100
STATUSES: Final = ("playing", "won", "lost", "resigned", "timed-out")


PATH_PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "name": {"description": "The ruleset", "schema": {"type": "string", "enum": list(RULESETS)}},
    "spec": {
        "description": "The deal spec",
        "schema": {"type": "string", "enum": list(DEAL_SPECS)},
    },
    "ruleset": {
        "description": "The ruleset, which says how many cards go where",
        "schema": {"type": "string", "enum": list(RULESETS)},
    },
    "game_id": {"description": "The game's id"},
    "token_id": {"description": "The token's id, which is not its text"},
    "import_id": {"description": "The imported replay's id"},
    "tournament_id": {"description": "The tournament's id"},
    "job_id": {"description": "The job's id"},
    "edition": {
        "description": "Which results, from 1",
        "schema": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
    },
    "webhook_id": {"description": "The webhook's id"},
    "number": {
        "description": "The round, from 1",
        "schema": {"type": "integer", "minimum": 1, "maximum": 50},
    },
    "player_id": {"description": "The player's id"},
    "entry_id": {"description": "The entry's id"},
    "invite_id": {"description": "The invite's id, which is not its code"},
    "ruling": {
        "description": "The ruling's number",
        "schema": {"type": "integer", "minimum": 1, "maximum": 10**9},
    },
}
"""What the contract says of the parameters of paths, beside what the paths themselves say."""


LAST_EVENT_ID: Final = {
    "in": "header",
    "name": "Last-Event-ID",
    "description": "The id of the last event that was received",
    "schema": {
        "type": "string",
        "pattern": "^[0-9]{1,4}(-[0-9a-f]{16})?$",
        "example": "12-0f3ab4c5d6e7f809",
    },
}
LAST_TOURNAMENT_EVENT_ID: Final = {
    **LAST_EVENT_ID,
    "schema": {
        "type": "string",
        "pattern": "^[0-9]{1,9}(-[0-9]{1,15})?$",
        "example": "57-1769865337440",
    },
}
EVENT_STREAM: Final = {
    "description": "Events, until what is watched ends",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}
STREAM_SERVER: Final = {
    "url": "http://127.0.0.1:8001",
    "description": "The port of the live events; `links.events` is the whole URL",
}


class Schema(ma.Schema):
    """A closed object: a member that is not known is an error."""

    class Meta:
        """Options."""

        unknown = ma.RAISE

    def __deepcopy__(self, memo: Any) -> Self:
        """Return itself: flask-smorest copies all that it knows of an operation again and again."""
        return self


def text(pattern: str, description: str, example: str, **options: Any) -> fields.String:
    """Return a field for text that matches a pattern as a whole."""
    whole = re.compile(pattern).fullmatch

    def matches(value: str) -> None:
        if not whole(value):
            raise ma.ValidationError(f"not of the form {pattern}")

    metadata = {"description": description, "pattern": f"^{pattern}$", "example": example}
    return fields.String(validate=matches, metadata=metadata, **options)


class Integer(fields.Integer):
    """An integer as JSON Schema has it: 3 and 3.0, not "3" and not true."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> int:
        # Infinity, which 1e400 is read as, leaves a remainder that is no number.
        if isinstance(value, bool) or not isinstance(value, int | float) or value % 1:
            raise self.make_error("invalid")
        return int(value)


class QueryInteger(fields.Integer):
    """An integer in a query: digits alone."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> int:
        if not re.fullmatch(r"-?[0-9]{1,9}", value):
            raise self.make_error("invalid")
        return int(value)


def integer(low: int, high: int, description: str, **options: Any) -> Integer:
    """Return a field for an integer in a range."""
    return Integer(
        validate=validate.Range(low, high), metadata={"description": description}, **options
    )


def words(values: tuple[str, ...], description: str, **options: Any) -> fields.String:
    """Return a field for one of some words."""
    return fields.String(
        validate=validate.OneOf(values), metadata={"description": description}, **options
    )


def uuid_field(description: str, *, required: bool = True) -> fields.String:
    """Return a field for an id that is told."""
    return fields.String(required=required, metadata={"description": description, "format": "uuid"})


def instant(description: str, **options: Any) -> fields.String:
    """Return a field for an instant that is told."""
    return fields.String(
        metadata={
            "description": f"{description}, RFC 3339 in UTC with ms",
            "format": "date-time",
            "example": "2026-01-31T12:00:00.000Z",
        },
        **options,
    )


def _ply(description: str) -> Integer:
    return integer(0, LOG_LIMIT, description, required=True)


def _card(description: str, **options: Any) -> fields.String:
    return text(CARD, description, "7H", **options)


def _cards(description: str, **options: Any) -> fields.List[Any]:
    return fields.List(_card("A card"), metadata={"description": description}, **options)


_SEED = "Printable ASCII without the space, 1 to 64 characters; for pysol-1 a number, or ms and one"


class NewDeal(Schema):
    """Which deal a new game is of."""

    spec = words(DEAL_SPECS, "The deal spec", load_default=DEFAULT_SPEC)
    seed = text("[!-~]{1,64}", f"{_SEED}. Left out, the server draws one and hides it.", "royal")


class Options(Schema):
    """Options of a game: there are none yet, and the list is closed."""


class NewGame(Schema):
    """What a new game is to be."""

    ruleset = words(tuple(RULESETS), "The ruleset", load_default=DEFAULT_RULESET)
    deal = fields.Nested(NewDeal, load_default=lambda: {"spec": DEFAULT_SPEC})
    options = fields.Nested(Options, load_default=dict)


class Command(Schema):
    """A move: from a place to a place."""

    origin = text(PLACE, "The place that the card leaves", "r3", required=True, data_key="from")
    destination = text(
        PLACE,
        "Where it goes; may be left out where exactly one foundation fits",
        "upper-S",
        data_key="to",
    )
    card = _card("The card that is meant; if given, it must be the one that moves")


class Batch(Schema):
    """Moves, made all or not at all."""

    ply = _ply("The ply that the client saw")
    moves = fields.List(
        fields.Nested(Command), required=True, validate=validate.Length(1, MAX_BATCH)
    )


class Act(Schema):
    """An act that needs no more than the ply that the client saw."""

    ply = _ply("The ply that the client saw")


# Written out, since dialects of patterns differ in what a space is. Controls and marks that turn
# the direction of what follows would reach beyond the name.
_CONTROLS: Final = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
_SPACES: Final = r" \xa0\u1680\u2000-\u200f\u202f\u205f\u3000\ufeff"


def line(most: int, description: str, example: str, **options: Any) -> fields.String:
    """Return a field for a text of one line, of at least one and at most so many characters."""
    return text(
        rf"[^{_CONTROLS}{_SPACES}]([^{_CONTROLS}]{{0,{most - 2}}}[^{_CONTROLS}{_SPACES}])?",
        f"{description}, 1 to {most} characters on one line, no space at either end",
        example,
        **options,
    )


class NewPlayer(Schema):
    """A player to be."""

    name = line(40, "Shown to others", "Ada", required=True)


class PlayerChange(Schema):
    """What is to change of a player."""

    name = line(40, "Shown to others", "Ada", required=True)


class NewToken(Schema):
    """A token to be."""

    scopes = fields.List(
        words(SCOPES, "A scope"),
        required=True,
        validate=validate.Length(1, len(SCOPES)),
        metadata={"description": "What it is to be good for; none that the token used here lacks"},
    )
    days = integer(
        1, 3650, "Days until it expires; left out, it is good for as long as the token used here"
    )


class RevocationQuery(Schema):
    """How far a revocation goes."""

    minted = words(
        ("true", "false"),
        "Whether the tokens that were minted by it, and by those, are revoked as well",
        load_default="false",
    )


KEY_HEADER: Final = "Idempotency-Key"


class KeyHeader(Schema):
    """What makes a creating request safe to repeat."""

    key = text(
        "[!-~]([ -~]{0,253}[!-~])?",
        "Drawn anew for each thing to be made, 1 to 255 printable ASCII characters. For 24 hours "
        "the same request with the same key gives the same thing, as it then stands; another "
        "request with it is refused",
        "8e03978e-40d5-43dd-bc93-6894a57f9324",
        data_key=KEY_HEADER,
    )


class MatchHeader(Schema):
    """What keeps a change from undoing another one."""

    match = text(
        '(W/)?"[0-9]{1,9}-[0-9a-f]{32}"',
        "The ETag of what is changed, as it was seen",
        f'"3-{"0" * 32}"',
        required=True,
        data_key="If-Match",
    )


class DealQuery(Schema):
    """Which deal."""

    seed = text("[!-~]{1,64}", _SEED, "royal", required=True)


class PlyQuery(Schema):
    """At which ply."""

    ply = QueryInteger(
        validate=validate.Range(0, LOG_LIMIT),
        metadata={"description": "The game as it was after so many entries of its log"},
    )


class QueryInstant(fields.DateTime):
    """An instant in a query, RFC 3339."""

    _form = re.compile(
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[-+][0-9]{2}:[0-9]{2})"
    )

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> datetime:
        text = str(value).upper()
        try:
            if self._form.fullmatch(text):
                return datetime.fromisoformat(text)
        except ValueError:
            pass
        raise ma.ValidationError("not an instant such as 2026-01-31T12:00:00.000Z")


def query_instant(description: str, **options: Any) -> QueryInstant:
    """Return a field for an instant that is given."""
    return QueryInstant(
        **options,
        metadata={
            "description": f"{description}, RFC 3339",
            "format": "date-time",
            "example": "2026-01-31T12:00:00.000Z",
        },
    )


def _query_score(description: str) -> QueryInteger:
    return QueryInteger(validate=validate.Range(0, 104), metadata={"description": description})


def limit() -> QueryInteger:
    """Return a field for how many items of a list are wanted."""
    return QueryInteger(
        load_default=20,
        validate=validate.Range(1, MAX_LIMIT),
        metadata={"description": "Most items of the page"},
    )


class PageQuery(Schema):
    """Which page of a list."""

    limit = limit()
    cursor = text(
        "[-_A-Za-z0-9]{1,64}",
        "From a Link header of another page of the same list, with the same filters",
        "AAGcE-yeCHR-gAAAAAAAAAlQ1dqyPZdN",
    )


class GameQuery(PageQuery):
    """Which games, and which page of their list."""

    player = text(
        "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
        "Whose games: one's own, unless the token has the scope `admin`",
        "019c13ec-9e00-710f-8000-000000000001",
    )
    ruleset = words(tuple(RULESETS), "Games of this ruleset")
    status = words(STATUSES, "Games that stand so")
    created_after = query_instant("Games made at this instant or later")
    created_before = query_instant("Games made before this instant")
    min_score = _query_score("Games that ended with this score or more")
    max_score = _query_score("Games that ended with this score or less")


class ExportQuery(Schema):
    """Which of one's ended games."""

    ruleset = words(tuple(RULESETS), "Games of this ruleset")
    status = words(STATUSES[1:], "Games that ended so")
    min_score = _query_score("Games that ended with this score or more")
    max_score = _query_score("Games that ended with this score or less")
    since = query_instant("Games that ended at this instant or later; `next` of an earlier export")
    until = query_instant("Games that ended before this instant")


class Problem(Schema):
    """A problem document (RFC 9457)."""

    class Meta:
        """Options."""

        unknown = ma.RAISE

    type = fields.String(required=True, metadata={"format": "uri-reference"})
    title = fields.String(required=True)
    status = integer(400, 599, "The HTTP status", required=True)
    detail = fields.String(required=True, metadata={"description": "A sentence on this very case"})
    code = fields.String(required=True, metadata={"description": "Stable name of the problem"})
    request_id = fields.String(required=True)
    errors = fields.List(
        fields.Nested("PointedError"),
        metadata={"description": "What is wrong where in the request"},
    )
    ply = integer(0, LOG_LIMIT, "The ply that the game is at")
    failed_index = integer(0, MAX_BATCH - 1, "Which of the moves was refused, from 0")
    reason = fields.String(metadata={"description": "Which rule refused the move"})
    targets = fields.List(fields.String(), metadata={"description": "Foundations that fit"})
    legal_moves = fields.List(fields.Nested(Command))
    game = fields.Nested("Game")
    verdict = fields.Nested("Verification")
    required_scope = fields.String()
    retry_after = integer(0, LONGEST_WINDOW, "Seconds after which to try again")


class PointedError(Schema):
    """What is wrong with one member of the request."""

    pointer = fields.String(
        required=True,
        metadata={"description": "JSON Pointer (RFC 6901), `#query/name` or `#header/name`"},
    )
    detail = fields.String(required=True)


class HeaderDeal(Schema):
    """A deal by its name: the seed, or the commitment to a hidden one."""

    spec = fields.String(required=True)
    seed = text("[!-~]{1,64}", "The seed", "royal")
    commitment = text(HEX_64, "The commitment to the hidden seed", "0" * 64)


class HeaderTournament(Schema):
    """Which attempt of which tournament a game is."""

    id = uuid_field("The tournament")
    round = integer(1, 2**53 - 1, "The round, from 1", required=True)
    deal_no = integer(1, 2**53 - 1, "The deal's number, from 1", required=True)
    entry = uuid_field("The player's entry")
    attempt = integer(1, 2**53 - 1, "The attempt at this deal, from 1", required=True)
    deadline = integer(0, 2**53 - 1, "ms since 1970", required=True)


class Header(Schema):
    """What is fixed when the game is made; a client computes digests from it."""

    id = uuid_field("The game's id")
    ruleset = fields.String(required=True)
    deal = fields.Nested(HeaderDeal, required=True)
    player = uuid_field("The player's id")
    created_at = integer(0, 2**53 - 1, "ms since 1970", required=True)
    options = fields.Nested(Options, required=True)
    tournament = fields.Nested(HeaderTournament)


class Foundation(Schema):
    """A foundation."""

    id = text(FOUNDATION, "Its name", "upper-S", required=True)
    cards = integer(0, 13, "Number of cards on it", required=True)
    top = _card("Its top card; absent when empty")
    wants = _card("The card that it takes next; absent when it takes none now")


class ReservePlace(Schema):
    """A place of the reserve."""

    id = text("r([1-9]|1[0-6])", "Its name", "r3", required=True)
    card = _card("The card on it; absent when empty")


class ColumnPlace(Schema):
    """A column."""

    id = text("c[1-4]", "Its name", "c1", required=True)
    cards = _cards("Its cards, the last one available", required=True)


class Effect(Schema):
    """What followed from a move by itself."""

    move = text(ENTRY, "The move's text", "waste:r3", required=True)
    card = _card("The card that moved", required=True)


class AppliedEntry(Schema):
    """A log entry and what it did."""

    ply = integer(0, LOG_LIMIT - 1, "Index of the entry in the log, from 0", required=True)
    ms = integer(0, 2**53 - 1, "When, in ms since the game's creation", required=True)
    move = text(ENTRY, "The entry's text", "r3:upper-S", required=True)
    card = _card("The card that moved; absent where none did")
    effects = fields.List(fields.Nested(Effect), required=True)


class GameLinks(Schema):
    """Where things of this game are."""

    self = fields.String(required=True)
    moves = fields.String(required=True)
    replay = fields.String(required=True)
    events = fields.String(
        required=True, metadata={"description": "Its live events: a whole URL, on another port"}
    )


class Game(Schema):
    """A game as its viewer sees it. Hidden cards have no place in it."""

    id = uuid_field("The game's id")
    header = fields.Nested(Header, required=True)
    ruleset = fields.String(required=True)
    deal = fields.Nested(HeaderDeal, required=True)
    seed = text("[!-~]{1,64}", "The seed of a hidden deal, once the game has ended", "royal")
    created_at = instant("When the game was made", required=True)
    ended_at = instant("When it ended")
    ply = _ply("Number of entries in the log: what the next act must carry")
    status = words(STATUSES, "How the game stands", required=True)
    score = integer(0, 104, "Cards on foundations", required=True)
    digest = text(HEX_64, "Of the header and the log so far", "0" * 64, required=True)
    foundations = fields.List(fields.Nested(Foundation), required=True)
    reserve = fields.List(fields.Nested(ReservePlace), required=True)
    columns = fields.List(
        fields.Nested(ColumnPlace), metadata={"description": "Where the ruleset has some"}
    )
    waste = _cards("Bottom to top", required=True)
    stock = integer(0, 104, "Number of face-down cards", required=True)
    redeals = integer(0, 9, "Redeals left, where the ruleset has some")
    legal_moves = fields.List(
        fields.Nested(Command),
        required=True,
        metadata={"description": "Ready to be sent, in a stable order"},
    )
    undos = integer(0, LOG_LIMIT, "Number of undos in the log", required=True)
    hints = integer(0, LOG_LIMIT, "Number of hints in the log", required=True)
    links = fields.Nested(GameLinks, required=True)
    applied = fields.List(
        fields.Nested(AppliedEntry), metadata={"description": "What this very request did"}
    )


class SelfLink(Schema):
    """Where it is."""

    self = fields.String(required=True)


class GameSummary(Schema):
    """A game as lists give it."""

    id = uuid_field("The game's id")
    ruleset = fields.String(required=True)
    created_at = instant("When the game was made", required=True)
    ply = _ply("Number of entries in the log")
    status = words(STATUSES, "How the game stands", required=True)
    score = integer(0, 104, "Cards on foundations at the end")
    ended_at = instant("When it ended")
    links = fields.Nested(SelfLink, required=True)


class GameList(Schema):
    """A page of games; the Link header leads to those before and after it."""

    games = fields.List(fields.Nested(GameSummary), required=True)


class Player(Schema):
    """A player."""

    id = uuid_field("The player's id")
    name = fields.String(required=True)


class NewPlayerToken(Schema):
    """A player and their first token, which is shown this once."""

    player = fields.Nested(Player, required=True)
    token = fields.String(required=True)


class Me(Schema):
    """Whose token this is and what it is good for."""

    player = fields.Nested(Player, required=True)
    scopes = fields.List(fields.String(), required=True)
    token = uuid_field("The token's id")


class Token(Schema):
    """A token, without its text."""

    id = uuid_field("The token's id")
    scopes = fields.List(fields.String(), required=True)
    created_at = instant("When it was made", required=True)
    expires_at = instant("When it expires")
    revoked_at = instant("When it was revoked")
    last_used_at = instant("When it was last used, to the minute")
    minted_by = fields.String(
        metadata={"description": "The token that minted it, if one did", "format": "uuid"}
    )


class MintedToken(Token):
    """A further token, whose text is shown this once."""

    token = fields.String(required=True, metadata={"description": "The token's text"})


class ExportLine(Schema):
    """A line of an export: a row of a table, or at the end their number."""

    table = fields.String(metadata={"description": "The table"})
    row = fields.Dict(
        metadata={"description": "Its columns that are not empty; bytes are told as hex digits"}
    )
    end = fields.Boolean(metadata={"description": "Stands in the last line alone"})
    count = integer(0, 2**53 - 1, "Number of lines before the last")


class TokenList(Schema):
    """A page of one's tokens; the Link header leads to those before and after it."""

    tokens = fields.List(fields.Nested(Token), required=True)


class Layout(Schema):
    """A deal, every card of it."""

    ruleset = fields.String(required=True)
    spec = fields.String(required=True)
    seed = text("[!-~]{1,64}", "The seed as records keep it", "royal", required=True)
    reserve = _cards("r1, r2, ...", required=True)
    columns = fields.List(_cards("A column"), metadata={"description": "c1, c2, ..."})
    stock = _cards("The next card first", required=True)


class RulesetFamily(Schema):
    """Four foundations, one a suit, that are built alike."""

    name = fields.String(required=True)
    ranks = fields.List(fields.String(), required=True)
    laid_out = fields.Boolean(required=True)
    waits_for = fields.String()


class RulePoint(Schema):
    """One point of the rules."""

    point = fields.String(required=True)
    text = fields.String(required=True)


class MoveCode(Schema):
    """A row of the move table: what a byte of a stored log means."""

    code = integer(0, 255, "The byte", required=True)
    origin = fields.String(data_key="from", metadata={"description": "The place left"})
    destination = fields.String(
        data_key="to", metadata={"description": "A family, whose suit the card gives, or a place"}
    )
    act = words(("hint", "resign", "undo"), "Where the entry is no move")


class RulesetName(Schema):
    """A ruleset in the list."""

    name = fields.String(required=True)
    game = fields.String(required=True)
    edition = fields.String(required=True)
    links = fields.Nested(SelfLink, required=True)


class Ruleset(Schema):
    """A ruleset: its parameters, its rules in words, and its move table."""

    name = fields.String(required=True)
    game = fields.String(required=True)
    edition = fields.String(required=True)
    families = fields.List(fields.Nested(RulesetFamily), required=True)
    reserve = fields.List(fields.Integer(), required=True)
    columns = fields.Integer(required=True)
    draw = fields.String(required=True)
    fill = fields.String(required=True)
    turns = fields.Boolean(required=True)
    redeals = fields.Integer(required=True)
    hops = fields.Boolean(required=True)
    rules = fields.List(fields.Nested(RulePoint), required=True)
    moves = fields.List(fields.Nested(MoveCode), required=True)


class RulesetList(Schema):
    """All rulesets, the default first."""

    rulesets = fields.List(fields.Nested(RulesetName), required=True)


class Rate(Schema):
    """How many requests of a kind are taken; more are answered with 429 and `Retry-After`."""

    name = fields.String(
        required=True, metadata={"description": "What is counted; each operation says its own"}
    )
    per = words(("token", "address"), "For whom it is counted", required=True)
    amount = fields.Integer(required=True, metadata={"description": "Most requests ..."})
    window_ms = fields.Integer(
        required=True, metadata={"description": "... in so many ms, from the first of them on"}
    )
    shared = fields.Boolean(
        required=True,
        metadata={"description": "Whether the service's processes count together, or each alone"},
    )


class Limits(Schema):
    """What the service takes at most."""

    moves_per_request = fields.Integer(required=True)
    log_entries = fields.Integer(required=True)
    body_bytes = fields.Integer(required=True)
    replay_bytes = fields.Integer(required=True)
    bulk_bytes = fields.Integer(required=True)
    anonymous_bulk_bytes = fields.Integer(required=True)
    bulk_lines = fields.Integer(required=True)
    import_bytes = fields.Integer(required=True)
    imported_bytes = fields.Integer(required=True)
    imports = fields.Integer(required=True)
    tokens = fields.Integer(
        required=True, metadata={"description": "Good tokens of a player, at most"}
    )
    page_items = fields.Integer(required=True)
    games_in_play = fields.Integer(
        metadata={"description": "Of a player at once; absent where there may be any number"}
    )
    rates = fields.List(
        fields.Nested(Rate), required=True, metadata={"description": "None where they are off"}
    )


class Capabilities(Schema):
    """What this service offers."""

    service = fields.String(required=True, metadata={"description": "Version of the service"})
    api = fields.String(required=True, metadata={"description": "Version of the contract"})
    replay = fields.String(required=True, metadata={"description": "Format of replays"})
    deal_specs = fields.List(fields.String(), required=True)
    rulesets = fields.List(fields.String(), required=True)
    registration = words(("open", "closed"), "Whether new players are taken", required=True)
    limits = fields.Nested(Limits, required=True)
    time = instant("The service's clock", required=True)


class Health(Schema):
    """That it is well."""

    status = fields.String(required=True)


class LevelState(Schema):
    """How one level of a verification went."""

    state = words(("pass", "fail", "skipped"), "How it went", required=True)
    reason = fields.String(metadata={"description": "Why it was skipped"})


class Levels(Schema):
    """The levels of a verification, in their order."""

    structure = fields.Nested(LevelState, required=True)
    deal = fields.Nested(LevelState, required=True)
    rules = fields.Nested(LevelState, required=True)
    outcome = fields.Nested(LevelState, required=True)
    digest = fields.Nested(LevelState, required=True)
    signature = fields.Nested(LevelState, required=True)


class VerdictProblem(Schema):
    """Where a document failed, and why."""

    level = fields.String(required=True)
    code = fields.String(required=True)
    detail = fields.String(required=True)
    pointer = fields.String()
    ply = integer(0, LOG_LIMIT, "Index of the log entry at fault")


class ReplayResult(Schema):
    """What a log gives."""

    status = words(STATUSES, "How the game stands", required=True)
    score = integer(0, 104, "Cards on foundations", required=True)
    ply = _ply("Number of entries in the log")
    undos = integer(0, LOG_LIMIT, "Number of undos", required=True)
    hints = integer(0, LOG_LIMIT, "Number of hints", required=True)
    ended_at = integer(0, 2**53 - 1, "ms since 1970")
    position = fields.String(required=True, metadata={"description": "Text of the position"})


class Verification(Schema):
    """What the verifier says of a document."""

    verdict = words(("valid", "invalid", "incomplete", "unsupported"), "The whole", required=True)
    levels = fields.Nested(Levels, required=True)
    result = fields.Nested(ReplayResult)
    problem = fields.Nested(VerdictProblem)


class Replay(Schema):
    """A replay document, `replay-1`; its own JSON Schema is at `/schemas/replay-1.json`."""

    format = words(("replay-1",), "The format", required=True)
    header = fields.Nested(Header, required=True)
    seed = text("[!-~]{1,64}", "A hidden deal's seed, once revealed", "royal")
    log = fields.List(text(ENTRY, "An entry", "r3:upper-S"), required=True)
    times = fields.List(integer(0, 2**53 - 1, "ms since the creation"), required=True)
    result = fields.Nested(ReplayResult, required=True)
    digest = text(HEX_64, "Of header, log and times", "0" * 64, required=True)
    signature = text(
        "[-_A-Za-z0-9.]{1,4096}",
        "Compact JWS by the service's key, once the game has ended",
        "eyJhbGciOiJFZDI1NTE5Iiwia2lkIjoiLi4uIn0.e30.AAAA",
    )
    extra = fields.Raw(metadata={"description": "Whatever an imported replay has here"})


class ReplayLine(Replay):
    """A line of an export: a replay, or at the end their number."""

    format = words(("replay-1",), "The format")
    header = fields.Nested(Header)
    log = fields.List(text(ENTRY, "An entry", "r3:upper-S"))
    times = fields.List(integer(0, 2**53 - 1, "ms since the creation"))
    result = fields.Nested(ReplayResult)
    digest = text(HEX_64, "Of header, log and times", "0" * 64)
    broken = fields.String(
        metadata={
            "description": "In place of a replay: id of a game whose record is damaged",
            "format": "uuid",
        }
    )
    end = fields.Boolean(metadata={"description": "Stands in the last line alone"})
    count = integer(0, 2**53 - 1, "Number of lines before the last")
    next = instant("In the last line: `since` for all that is not in this export")


class VerdictLine(Verification):
    """A line of verdicts: on a line of the request, or at the end their numbers."""

    verdict = words(("valid", "invalid", "incomplete", "unsupported"), "The whole")
    levels = fields.Nested(Levels)
    line = integer(1, 2**53 - 1, "The request's line, from 1")
    end = fields.Boolean(metadata={"description": "Stands in the last line alone"})
    count = integer(0, 2**53 - 1, "Number of verdicts")
    valid = integer(0, 2**53 - 1, "So many were `valid`")
    invalid = integer(0, 2**53 - 1, "So many were `invalid`")
    incomplete = integer(0, 2**53 - 1, "So many were `incomplete`")
    unsupported = integer(0, 2**53 - 1, "So many were `unsupported`")
    complete = fields.Boolean(
        metadata={"description": "Whether the request ended with a closing line that counts right"}
    )


class ImportedReplay(Schema):
    """A replay of a game that was played elsewhere. It is never ranked."""

    id = uuid_field("The import's id, which is not the game's")
    imported = fields.Boolean(required=True, metadata={"description": "Always true"})
    created_at = instant("When it was imported", required=True)
    ruleset = fields.String(required=True)
    status = words(STATUSES[1:], "How the game ended", required=True)
    score = integer(0, 104, "Cards on foundations at the end", required=True)
    digest = text(HEX_64, "Of the replay's header, log and times", "0" * 64, required=True)
    links = fields.Nested(SelfLink, required=True)


class ImportList(Schema):
    """A page of imported replays; the Link header leads to the next."""

    imports = fields.List(fields.Nested(ImportedReplay), required=True)
