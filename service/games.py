"""Games: create, read, act, list, export. Every act on a game is safe to repeat.

A game's row is read, with the token, by one statement; the log is replayed; the acts are judged by
the engine; and one guarded statement writes what they add. If somebody else wrote in between, the
guard finds nothing to write and all begins again with the row as it is then.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Interval, bindparam, false, func, select, update
from sqlalchemy.dialects.postgresql import insert

from service import access, lists, repeats, standings
from service.access import Viewer
from service.engine import Game, Layout, Move, canonical_seed, deal, table
from service.engine.cards import EMPTY, TEXTS
from service.engine.deals import DEFAULT_SPEC
from service.engine.errors import BrokenLogError, EngineError, IllegalMoveError, RendezvousError
from service.engine.moves import RESIGN, STOCK, UNDO
from service.engine.replay import (
    canonical,
    commitment,
    commitment_context,
    digest,
    document,
    pack_times,
    unpack_times,
)
from service.engine.standings import Attempt, Result
from service.lists import Page, Place
from service.repeats import Key
from service.schedule import CLOSING
from service.store.database import DatabaseUnavailableError, Instant, Statement
from service.store.tables import games, players, rounds

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MAX_BATCH: Final = 200
"""Most moves of one request."""

TIMED_OUT: Final = "timed-out"
"""Status of a game that its deadline ended."""

WRITTEN_WITHIN: Final = timedelta(minutes=1)
"""How long after its instant an act is still written. What takes longer, as behind the lock of a
long maintenance, is refused: who copied what had ended by then would never learn of it."""

_SECRET_BYTES: Final = 32


class StalePlyError(RendezvousError):
    """The game is not at the ply that the client saw, and this is no repeat.

    Attributes:
        state: The game as it is.
    """

    code = "stale-ply"

    def __init__(self, state: "State", ply: int) -> None:
        super().__init__(f"the game is at ply {state.game.ply}, not at {ply}")
        self.state = state


class ActRefusedError(Exception):
    """An act was refused; nothing was changed.

    Attributes:
        error: Why.
        state: The game as it is.
        index: Which of the moves was refused, from 0.
    """

    def __init__(self, error: EngineError, state: "State", index: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.state = state
        self.index = index


class CardMismatchError(EngineError):
    """The card that the client named is not the one that would move."""

    code = "card-mismatch"


class BatchPastHiddenCardError(EngineError):
    """A batch may turn up a hidden card only by its last move."""

    code = "batch-past-hidden-card"


class SeedNeededError(EngineError):
    """The server draws no seeds of this deal spec."""

    code = "seed-needed"


class TooManyGamesError(RendezvousError):
    """The player has so many games in play that they may begin no more."""

    code = "too-many-games"


class DeadlinePassedError(RendezvousError):
    """The game's deadline has passed.

    Attributes:
        state: The game as it is.
    """

    code = "deadline-passed"

    def __init__(self, state: "State") -> None:
        super().__init__("the deadline has passed: the game counts as it stands")
        self.state = state


class PlyNotReachedError(RendezvousError):
    """The game has no such ply yet."""

    code = "ply-not-reached"


@dataclass(frozen=True, slots=True)
class Command:
    """A move as a client names it.

    Attributes:
        origin: The place it leaves.
        destination: Where it goes; None for the one foundation that fits.
        card: The card that the client means to move; None for whichever it is.
    """

    origin: str
    destination: str | None = None
    card: str | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """A log entry and what it did.

    Attributes:
        ply: Index of the entry.
        ms: Instant of the entry, in ms since the game's creation.
        entry: Its text.
        card: The card moved, None for an act or a redeal.
        effects: What followed by itself: texts and cards, in order.
    """

    ply: int
    ms: int
    entry: str
    card: str | None
    effects: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """What is stored of a game. Holds the seed: never given to a client as it is."""

    id: UUID
    player: UUID
    created_at: datetime
    ended_at: datetime | None
    ply: int
    score: int | None
    hidden: bool
    status: str | None
    ruleset: str
    spec: str
    seed: str
    log: bytes
    times: bytes
    tournament: UUID | None = None
    entry: UUID | None = None
    round: int | None = None
    deal_no: int | None = None
    attempt: int | None = None
    deadline: datetime | None = None
    verified: bytes | None = None
    named: UUID | None = None
    # Whether everybody may know its seed as soon as it has ended.
    open: bool = True
    # Whether its deadline has ended it, and nobody has written that yet.
    overdue: bool = False

    def header(self) -> dict[str, Any]:
        """Return the game's header, fixed at its creation but for an extended deadline."""
        sealed: dict[str, Any] = {}
        if self.deadline is not None:
            sealed["tournament"] = {
                "id": str(self.tournament),
                "round": self.round,
                "deal_no": self.deal_no,
                "entry": str(self.entry),
                "attempt": self.attempt,
                "deadline": to_ms(self.deadline),
            }
        context = commitment_context({"id": self.id, **sealed})
        named = (
            {"commitment": commitment(context, self.seed)} if self.hidden else {"seed": self.seed}
        )
        return {
            "id": str(self.id),
            "ruleset": self.ruleset,
            "deal": {"spec": self.spec, **named},
            "player": str(self.named or self.player),
            "created_at": to_ms(self.created_at),
            "options": {},
            **sealed,
        }

    @property
    def revealed_seed(self) -> str | None:
        """The seed of a deal that was hidden, once it may be known."""
        known = self.hidden and self.open and self.ended_at is not None
        return self.seed if known else None

    def replay(self, ply: int | None = None) -> Game:
        """Return the game after its first entries; all of them if not told how many.

        Raises:
            BrokenLogError: The row is damaged.
        """
        try:
            rules, layout = table(self.ruleset), _layout(self.spec, self.ruleset, self.seed)
        except (EngineError, LookupError) as error:
            raise BrokenLogError(f"there is no such deal: {error!r}", 0) from error
        log = self.log if ply is None else self.log[:ply]
        return Game.replay(rules, layout, log, undo_allowed=not self.hidden)

    def is_late(self, ms: int) -> bool:
        """Return whether an instant, in ms since its creation, lies after its deadline."""
        return self.deadline is not None and to_ms(self.created_at) + ms > to_ms(self.deadline)

    def instants(self) -> list[int]:
        """Return when its entries were made, in ms since its creation.

        Raises:
            BrokenLogError: The row is damaged.
        """
        times = unpack_times(self.times)
        if len(times) != self.ply:
            raise BrokenLogError(f"{len(times)} instants for {self.ply} entries", len(times))
        return times


@dataclass(frozen=True, slots=True)
class State:
    """A game at some ply, for its viewer's eyes once `service.view` has rendered it.

    Attributes:
        record: The row.
        game: The game at this ply.
        times: Instants of its entries, ms since the creation.
        header: Its header.
        digest: Of header, entries and times at this ply.
        applied: What the request did, if it did something.
        new: Whether it did so now, and does not repeat an earlier one.
    """

    record: Record
    game: Game
    times: list[int]
    header: dict[str, Any]
    digest: str
    applied: tuple[Applied, ...] | None = None
    new: bool = False

    def without_applied(self) -> "State":
        """Return it as a read gives it."""
        return replace(self, applied=None)

    def digest_at(self, ply: int) -> str:
        """Return the digest of its header and its first entries."""
        texts = [entry.text for entry in self.game.entries[:ply]]
        return digest(canonical(self.header), texts, self.times[:ply])


@dataclass(frozen=True, slots=True)
class Summary:
    """A game as lists tell it."""

    id: UUID
    ruleset: str
    created_at: datetime
    ply: int
    status: str
    score: int | None
    ended_at: datetime | None


def to_ms(instant: datetime) -> int:
    """Return an instant as ms since 1970."""
    return (instant - EPOCH) // timedelta(milliseconds=1)


@lru_cache(maxsize=2048)
def _layout(spec: str, ruleset: str, seed: str) -> Layout:
    return deal(spec, ruleset, seed)


SOURCE: Final = games.outerjoin(
    rounds, (rounds.c.tournament_id == games.c.tournament_id) & (rounds.c.number == games.c.round)
)
"""What rows of games are read from ..."""
OVERDUE: Final = games.c.ended_at.is_(None) & func.coalesce(
    games.c.deadline <= func.now() - CLOSING, false()
)
"""Whether a game's deadline has ended it, and nobody has written that yet."""
COLUMNS: Final = (
    *games.c,
    (games.c.tournament_id.is_(None) | func.coalesce(rounds.c.reveals_at <= func.now(), false())),
    OVERDUE,
)
"""... and what is read of them: the members of a :class:`Record`."""

_READ: Final = Statement(
    select(*access.COLUMNS, *COLUMNS).select_from(
        access.with_token(games, games.c.id == bindparam("game")).outerjoin(
            rounds,
            (rounds.c.tournament_id == games.c.tournament_id) & (rounds.c.number == games.c.round),
        )
    )
)
_BEFORE: Final = len(access.COLUMNS)


def _read(
    connection: Connection, instant: Instant, token: bytes | None, game_id: UUID
) -> tuple[datetime, Viewer | None, Record | None]:
    """Return the request's instant, whose token it is, and the game, by one statement."""
    row = _READ.on(connection, token=token, game=game_id).fetchone() or ()
    now, who = access.viewer(connection, row, token, instant)
    return now, who, None if row[_BEFORE] is None else Record(*row[_BEFORE:])


def _state(
    record: Record,
    game: Game,
    times: list[int],
    applied: list[Applied] | None,
    *,
    new: bool = False,
) -> State:
    header = record.header()
    texts = [entry.text for entry in game.entries]
    return State(
        record,
        game,
        times,
        header,
        digest(canonical(header), texts, times),
        None if applied is None else tuple(applied),
        new,
    )


def create(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    *,
    game_id: UUID,
    ruleset: str,
    spec: str,
    seed: str | None,
    drawn: str,
    most: int = 0,
    key: Key | None = None,
) -> State:
    """Make a game and return it; if it was made under the same key already, as it stands now.

    Args:
        connection: In a transaction if there is a key; else each statement may be its own.
        instant: The request's.
        token: The fingerprint of the request's token.
        game_id: A new UUIDv7.
        ruleset: Name of a ruleset.
        spec: Name of a deal spec.
        seed: The player's seed; None for a hidden one.
        drawn: The seed that is taken then; see :func:`draw_seed`.
        most: Most games that a player may have in play at once; 0 for any number. Several that are
            created at the same moment may go beyond it.
        key: What the client sent so that it may ask again.

    Raises:
        EngineError: There is no such ruleset or deal spec, or the seed is none of it.
        KeyReusedError: The key was sent with another request.
        TooManyGamesError: The player has as many games in play as they may.
    """
    rules = table(ruleset)
    now, who = access.read_viewer(connection, token, instant)
    who = access.demand(who, *access.PLAY)
    if seed is None and spec != DEFAULT_SPEC:
        raise SeedNeededError(f"a hidden seed is of {DEFAULT_SPEC} only: give a seed for {spec}")
    used = drawn if seed is None else canonical_seed(spec, seed)
    if key is not None:
        made = repeats.claim(connection, now, who.player, key, game_id)
        if made != game_id:
            return _made(connection, instant, token, made)
    record = Record(
        id=game_id,
        player=who.player,
        created_at=now,
        ended_at=None,
        ply=0,
        score=None,
        hidden=seed is None,
        status=None,
        ruleset=ruleset,
        spec=spec,
        seed=used,
        log=b"",
        times=b"",
    )
    game = Game(rules, _layout(spec, ruleset, used), undo_allowed=not record.hidden)
    written = _INSERT.on(
        connection,
        most=most,
        id=game_id,
        player_id=who.player,
        created_at=now,
        ply=0,
        hidden=record.hidden,
        ruleset=ruleset,
        spec=spec,
        seed=used,
        log=b"",
        times=b"",
    )
    if written.rowcount == 0 and _read(connection, instant, token, game_id)[2] is None:
        raise TooManyGamesError(f"{most} games in play are as many as a player may have: end some")
    return _state(record, game, [], None, new=True)


def state_of(record: Record) -> State:
    """Return a game as it stands.

    Raises:
        BrokenLogError: The row is damaged.
    """
    return _state(record, record.replay(), record.instants(), None)


def _made(connection: Connection, instant: Instant, token: bytes | None, game_id: UUID) -> State:
    """Return a game of the viewer's as it stands, whatever their token may read."""
    _, _, record = _read(connection, instant, token, game_id)
    if record is None:
        access.not_found("game")
    return _state(record, record.replay(), record.instants(), None)


_GIVEN: Final = (
    "id",
    "player_id",
    "created_at",
    "ply",
    "hidden",
    "ruleset",
    "spec",
    "seed",
    "log",
    "times",
)
_IN_PLAY: Final = (
    select(games.c.id)
    .where(games.c.player_id == bindparam("player_id"), games.c.ended_at.is_(None))
    .limit(bindparam("most"))
    .subquery()
)
# The id is new: a conflict means that this very act was done before its connection broke. A player
# who is just being deleted is waited for, which the foreign key does too, and then found gone.
_INSERT: Final = Statement(
    insert(games)
    .from_select(
        _GIVEN,
        select(*(bindparam(name, type_=games.c[name].type) for name in _GIVEN))
        .select_from(players)
        .where(
            players.c.id == bindparam("player_id"),
            players.c.deleted_at.is_(None),
            (bindparam("most") == 0)
            | (select(func.count()).select_from(_IN_PLAY).scalar_subquery() < bindparam("most")),
        )
        .with_for_update(read=True, key_share=True, of=players),
    )
    .on_conflict_do_nothing(index_elements=["id"])
)


def draw_seed() -> str:
    """Return a seed of 256 random bits from the operating system, as 64 hex digits."""
    return secrets.token_hex(_SECRET_BYTES)


def read(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    game_id: UUID,
    ply: int | None = None,
) -> State:
    """Return a game now, or as it was after some number of entries.

    Raises:
        NotFoundError: There is no such game for this viewer.
        PlyNotReachedError: It has not so many entries.
    """
    record, _ = look(connection, instant, token, game_id)
    if ply is not None and ply > record.ply:
        raise PlyNotReachedError(f"the game is at ply {record.ply}")
    game = record.replay(ply)
    return _state(record, game, record.instants()[: game.ply], None)


def replay_of(record: Record) -> dict[str, Any]:
    """Return the replay document of a row.

    Raises:
        BrokenLogError: The row is damaged.
    """
    return document(
        record.header(),
        record.replay(),
        record.instants(),
        seed=record.revealed_seed,
        timed_out=record.status == TIMED_OUT,
    )


def look(
    connection: Connection, instant: Instant, token: bytes | None, game_id: UUID
) -> tuple[Record, Viewer | None]:
    """Return the row of a game that the viewer may read, and who that is.

    One's own games may be read, and anybody's that has ended, once its seed may be known.

    Raises:
        NotFoundError: There is no such game for this viewer.
    """
    _, who, record = _read(connection, instant, token, game_id)
    if who is not None:
        access.demand(who, *access.READ)
    if record is None:
        access.not_found("game")
    known = record.ended_at is not None and record.open
    if not known and (who is None or who.player != record.player):
        access.not_found("game")
    return record, who


def since(record: Record, ply: int) -> State:
    """Return a game as it stands, and what its entries from a ply on did.

    Raises:
        BrokenLogError: The row is damaged.
    """
    game, times = record.replay(ply), record.instants()
    applied = [_enter(game, entry) for entry in record.replay().entries[ply:]]
    return _state(record, game, times, _timed(applied, times))


def move(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    game_id: UUID,
    ply: int,
    commands: Sequence[Command],
) -> State:
    """Make moves, all or none, and return the game with what they did.

    Args:
        connection: Each statement may be its own transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        game_id: The game.
        ply: The ply that the client saw.
        commands: 1 to MAX_BATCH moves.

    Raises:
        NotFoundError: The viewer has no such game.
        StalePlyError: The game is at another ply and this is no repeat.
        ActRefusedError: A move is not legal, or names another card, or goes past a hidden card.
    """
    return _act(connection, instant, token, game_id, ply, commands)


def undo(
    connection: Connection, instant: Instant, token: bytes | None, game_id: UUID, ply: int
) -> State:
    """Take back the latest move not yet taken back and return the game; raises as :func:`move`."""
    return _act(connection, instant, token, game_id, ply, (UNDO,))


def resign(
    connection: Connection, instant: Instant, token: bytes | None, game_id: UUID, ply: int
) -> State:
    """Give the game up and return it; raises as :func:`move`."""
    return _act(connection, instant, token, game_id, ply, (RESIGN,))


Acts = Sequence[Command | Move]
"""What a request does: moves as the client names them, or one log entry that is no move."""


class _RefusedError(Exception):
    def __init__(self, error: EngineError, index: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.index = index


def _attempt(game: Game, acts: Acts, *, new: bool) -> list[Applied]:
    """Enter acts into a game and return what they did.

    Args:
        game: Changed, up to the act that is refused if one is.
        acts: The acts.
        new: Whether hidden cards are to be kept from whoever acts; in a repeat they are known.
    """
    hidden = new and not game.undo_allowed
    applied = []
    for index, act in enumerate(acts):
        try:
            entry = act if isinstance(act, Move) else _resolve(game, act, hidden=hidden)
            if hidden and index < len(acts) - 1 and game.position.uncovers(entry):
                raise BatchPastHiddenCardError(
                    f"{entry.text} turns up a hidden card: only the last move of a request may"
                )
            applied.append(_enter(game, entry))
        except EngineError as error:
            raise _RefusedError(error, index) from error
    return applied


def _resolve(game: Game, command: Command, *, hidden: bool) -> Move:
    """Return the legal move that a client means."""
    game.check_open()
    position = game.position
    if command.card is not None and command.origin in game.rules.places:
        found = TEXTS[position.tops[game.rules.places.index(command.origin)]]
        if found != command.card:
            raise CardMismatchError(f"{command.origin} holds {found}, not {command.card}")
    entry = position.resolve(command.origin, command.destination)
    refusal = position.refusal(entry)
    if refusal is not None:
        raise IllegalMoveError(refusal)
    if command.card is not None:
        if hidden and entry.source == STOCK and position.uncovers(entry):
            raise CardMismatchError("the stock's next card is hidden: name none")
        number = position.moved_card(entry)
        if TEXTS[number] != command.card:
            raise CardMismatchError(f"{entry.text} does not move {command.card}")
    return entry


def _enter(game: Game, entry: Move) -> Applied:
    card = game.moved_card(entry)
    effects = game.enter(entry)
    tops = game.position.tops
    return Applied(
        game.ply - 1,
        0,
        entry.text,
        None if card == EMPTY else TEXTS[card],
        tuple((effect.text, TEXTS[tops[effect.place]]) for effect in effects),
    )


def _act(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    game_id: UUID,
    ply: int,
    acts: Acts,
) -> State:
    refused = False
    while True:
        now, who, record = _read(connection, instant, token, game_id)
        who = access.demand(who, *access.PLAY)
        if record is None or record.player != who.player:
            access.not_found("game")
        if ply != record.ply:
            return _repeat(record, ply, acts)
        if record.deadline is not None and (now > record.deadline or record.status == TIMED_OUT):
            raise DeadlinePassedError(_state(record, record.replay(), record.instants(), None))
        if refused:  # not since somebody else wrote: they would have added to the ply
            raise DatabaseUnavailableError("an act was held up for too long to count as of then")
        state = _add(connection, record, now, acts)
        if state is not None:
            return state
        refused = True


def _repeat(record: Record, ply: int, acts: Acts) -> State:
    """Return the state right after acts that the log holds at this ply already."""
    times = record.instants()
    if ply < record.ply:
        game = record.replay(ply)
        try:
            applied = _attempt(game, acts, new=False)
        except _RefusedError:
            applied = []
        if applied and game.log == record.log[: game.ply]:
            return _state(record, game, times[: game.ply], _timed(applied, times))
    raise StalePlyError(_state(record, record.replay(), times, None), ply)


def _add(connection: Connection, record: Record, now: datetime, acts: Acts) -> State | None:
    """Judge new acts and write them; None if somebody else wrote meanwhile, or it is too late."""
    game = record.replay()
    try:
        applied = _attempt(game, acts, new=True)
    except _RefusedError as refused:
        state = _state(record, record.replay(), record.instants(), None)
        raise ActRefusedError(refused.error, state, refused.index) from refused.error
    times = record.instants()
    last = times[-1] if times else 0
    ms = max(last, to_ms(now) - to_ms(record.created_at))
    times += [ms] * len(applied)
    status = game.status
    playing = status == "playing"
    changed: dict[str, Any] = {
        "ply": game.ply,
        "status": None if playing else status,
        "score": None if playing else game.position.score,
        "ended_at": None if playing else record.created_at + timedelta(milliseconds=ms),
    }
    added = {
        "codes": game.log[record.ply :],
        # The gap before the first of them, and none between the others.
        "gaps": pack_times([ms - last] * len(applied)),
    }
    values = {"game": record.id, "seen": record.ply, "judged": now, **changed, **added}
    if record.tournament is None or record.entry is None:
        written = _APPEND.on(connection, **values, within=WRITTEN_WITHIN).rowcount > 0
    elif playing:
        written = _APPEND.on(connection, **values, within=CLOSING).rowcount > 0
    else:
        result = Result(int(status == "won"), game.position.score, game.ply, ms)
        attempt = Attempt(record.deal_no or 0, record.attempt or 0, result)
        written = standings.finish(
            connection, record.tournament, record.entry, attempt, {**values, "within": CLOSING}
        )
    if not written:
        return None
    record = replace(
        record, log=record.log + added["codes"], times=record.times + added["gaps"], **changed
    )
    return _state(record, game, times, _timed(applied, times), new=True)


# Ply never falls and every act adds to it, so that an equal ply means an unchanged row, unless its
# deadline ended the game meanwhile.
_APPEND: Final = Statement(
    update(games)
    .where(games.c.id == bindparam("game"), games.c.ply == bindparam("seen"))
    .where(games.c.status.is_distinct_from(TIMED_OUT))
    .where(games.c.deadline.is_(None) | (games.c.deadline >= bindparam("judged")))
    .where(func.clock_timestamp() - bindparam("judged") < bindparam("within", type_=Interval))
    .values(
        log=games.c.log.concat(bindparam("codes")),
        times=games.c.times.concat(bindparam("gaps")),
        ply=bindparam("ply"),
        status=bindparam("status"),
        score=bindparam("score"),
        ended_at=bindparam("ended_at"),
    )
)


def _timed(applied: list[Applied], times: list[int]) -> list[Applied]:
    return [Applied(one.ply, times[one.ply], one.entry, one.card, one.effects) for one in applied]


def list_own(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    *,
    limit: int,
    place: Place | None = None,
    player: UUID | None = None,
    **filters: Any,
) -> Page[Summary]:
    """Return a page of games, newest first.

    Args:
        connection: A connection.
        instant: The request's.
        token: The fingerprint of the request's token.
        limit: Most games.
        place: Where the page lies.
        player: Whose games; None for the viewer's own.
        filters: By the names of FILTERS.

    Raises:
        ScopeMissingError: They are another player's, and the token is no administrator's.
    """
    _, who = access.read_viewer(connection, token, instant)
    who = access.demand(who, *access.READ)
    whose = player or who.player
    if whose != who.player:
        access.demand(who, *access.ADMIN)
    query = select(*_SUMMARY).where(games.c.player_id == whose, *conditions(filters))
    return lists.read(
        connection, query, games.c.id, lambda row: Summary(*row), limit=limit, place=place
    )


def conditions(filters: Mapping[str, Any]) -> list[ColumnElement[bool]]:
    """Return what filters, by the names of FILTERS, ask of a game's row."""
    return [FILTERS[name](value) for name, value in filters.items()]


FILTERS: Final[dict[str, Callable[[Any], ColumnElement[bool]]]] = {
    "ruleset": lambda name: games.c.ruleset == name,
    "status": lambda status: (
        games.c.ended_at.is_(None) if status == "playing" else games.c.status == status
    ),
    "created_after": lambda instant: games.c.created_at >= instant,
    "created_before": lambda instant: games.c.created_at < instant,
    "since": lambda instant: games.c.ended_at >= instant,
    "until": lambda instant: games.c.ended_at < instant,
    # A game in play has no score yet.
    "min_score": lambda score: games.c.score >= score,
    "max_score": lambda score: games.c.score <= score,
}
"""What games can be filtered by: the condition on a row, by the filter's name."""
_SUMMARY: Final = (
    games.c.id,
    games.c.ruleset,
    games.c.created_at,
    games.c.ply,
    func.coalesce(games.c.status, "playing"),
    games.c.score,
    games.c.ended_at,
)
