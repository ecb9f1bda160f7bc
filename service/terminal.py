"""A game at the terminal: one person, one practice game, commands a line.

Every act is saved as soon as it is done where a file is given, so nothing is lost by an interrupt.
"""

import contextlib
import json
import os
import re
import shlex
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from rich.text import Text

from service.drawing import Screen
from service.engine import Game, Move, Position, deal, document, table, verify
from service.engine.cards import CARDS, EMPTY, NOTHING, SUITS, TEXTS
from service.engine.errors import EngineError, NotAMoveError
from service.engine.moves import DRAW, FILL, HINT, PLAY, REDEAL, RESIGN, STOCK, UNDO, Effect
from service.engine.verify import MAX_DOCUMENT_BYTES, read

HELP: Final = """\
r3           play the card of that place if one foundation fits; w is the waste
r3:upper-S   play it on that foundation
2            make the move of that number in the list
d or Enter   draw: turn the next stock card onto the waste
t            turn the waste over to be the stock again, where the rules allow it
u            undo: take the latest move back
h            hint: a move that looks good from what is seen; hints are counted
m            show the position and its legal moves again
r            resign
s FILE       save the replay
q            quit
A card in brackets can go to a foundation. A foundation shows its top card, and
after the arrow what it wants."""

_FOUNDATION_SUITS: Final = str.maketrans("♣♦♥♠", SUITS)
_PLACE: Final = re.compile(r"(.+)-([cdhs])")
_NUMBER: Final = re.compile(r"[0-9]{1,4}", re.ASCII)
_FAR: Final = 0.4
"""How much farther up its pile than the game as a whole a card may stand, to be let in."""


BAD_PATH: Final = (OSError, RuntimeError, ValueError)
"""What a path that someone gave may raise: OSError, or others for odd names and links."""


class ResumeError(ValueError):
    """A saved game cannot be gone on with; the text says why."""


def now() -> int:
    """Return the instant in ms since 1970."""
    return time.time_ns() // 1_000_000


class Record:
    """A practice game with what its replay needs besides.

    Attributes:
        header: The replay's header, fixed when the game began.
        game: The game as it stands.
        times: Instants of its entries, ms since the beginning, never falling.
        extra: Members that the document carries besides, as they were when it was resumed.
    """

    def __init__(
        self,
        header: dict[str, Any],
        game: Game,
        times: Sequence[int] = (),
        *,
        extra: Mapping[str, Any] | None = None,
        clock: Callable[[], int] = now,
    ) -> None:
        """Take a game as it stands; the clock gives instants in ms since 1970."""
        self.header = header
        self.game = game
        self.times = list(times)
        self.extra = dict(extra or {})
        self._clock = clock

    @classmethod
    def begin(
        cls, ruleset: str, spec: str, seed: str, *, clock: Callable[[], int] = now
    ) -> "Record":
        """Return a new game on this deal, under random ids.

        Args:
            ruleset: Name of the ruleset.
            spec: Name of the deal spec.
            seed: A canonical seed of the spec.
            clock: Gives instants in ms since 1970.
        """
        header = {
            "id": str(uuid.uuid4()),
            "ruleset": ruleset,
            "deal": {"spec": spec, "seed": seed},
            "player": str(uuid.uuid4()),
            "created_at": clock(),
            "options": {},
        }
        game = Game(table(ruleset), deal(spec, ruleset, seed), undo_allowed=True)
        return cls(header, game, clock=clock)

    @classmethod
    def resume(cls, text: bytes, *, clock: Callable[[], int] = now) -> "Record":
        """Return the game of a replay document, verified first.

        Raises:
            ResumeError: The document is not sound, or nothing can follow in its game here.
        """
        try:
            value = read(text)
        except ValueError as error:
            raise ResumeError(str(error)) from error
        verdict = verify(value)
        if verdict.problem is not None:
            raise ResumeError(verdict.problem.detail)
        header = value["header"]
        if "tournament" in header or "seed" not in header["deal"]:
            raise ResumeError("it is a game of a server, which alone can go on with it")
        status = value["result"]["status"]
        if status not in {"playing", "lost"}:
            raise ResumeError(f"the game is over: {status}")
        named = header["deal"]
        rules = table(header["ruleset"])
        layout = deal(named["spec"], header["ruleset"], named["seed"])
        game = Game(rules, layout, undo_allowed=True)
        game.extend(map(rules.parse, value["log"]))
        extra = {"extra": value["extra"]} if "extra" in value else {}
        return cls(header, game, value["times"], extra=extra, clock=clock)

    def enter(self, entry: Move) -> tuple[Effect, ...]:
        """Do a move or an act now and return its automatic effects.

        Raises:
            EngineError: It is refused; nothing is changed.
        """
        since = self._clock() - self.header["created_at"]
        ms = max(since, self.times[-1] if self.times else 0, 0)
        effects = self.game.enter(entry)
        self.times.append(ms)
        return effects

    def save(self, path: Path) -> None:
        """Write the replay document to this file, whole or not at all.

        Raises:
            OSError, RuntimeError, ValueError: It cannot be written; what was there is untouched.
        """
        replay = {**document(self.header, self.game, self.times), **self.extra}
        text = json.dumps(replay)
        path = path.resolve()
        partial = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            partial.write_text(text + "\n", encoding="ascii")
            partial.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise


def suggest(position: Position) -> tuple[Move, str]:
    """Return a legal move of a position in play, and why, from what its player can see.

    Low cards first. A place in the reserve is emptied or filled only for a card that does not wait
    long for its foundation, where drawing on is allowed instead.
    """
    rules, tops = position.rules, position.tops
    legal = position.legal_moves()
    others = {move.kind: move for move in reversed(legal) if move.kind != PLAY}
    plays = sorted(
        (move for move in legal if move.kind == PLAY), key=lambda move: tops[move.source] % 13
    )
    for move in plays:
        if move.source >= rules.reserve:
            return move, f"{TEXTS[tops[move.source]]} makes room on {move.origin}"
    comer = tops[rules.waste]
    if DRAW in others:
        if not plays and FILL not in others:
            return others[DRAW], "nothing else can be done"
        if comer != EMPTY and _waits_long(position, comer):
            return others[DRAW], f"{CARDS[comer]} would wait long in the reserve"
    if plays:
        return plays[0], f"{TEXTS[tops[plays[0].source]]} is the lowest card that can go"
    if FILL in others:
        return others[FILL], "an empty place is of no use"
    return others.get(REDEAL, legal[0]), "nothing else can be done"


def _waits_long(position: Position, number: int) -> bool:
    """Whether a card stands far up its pile for what is on the foundations already."""
    chains, heights = position.rules.chains, position.heights
    places = [
        chains[f].index(number) / len(chains[f])
        for f in position.rules.homes[number]
        if chains[f].index(number) >= heights[f] and position.wants[f] != NOTHING
    ]
    return min(places, default=1.0) > _FAR + position.score / (2 * len(CARDS))


class TerminalGame:
    """A conversation about one game.

    Attributes:
        record: The game with its times.
        screen: Where it is shown.
        file: Where it is saved after every act, or None.
    """

    def __init__(
        self, record: Record, screen: Screen, lines: TextIO, *, file: Path | None = None
    ) -> None:
        """Talk on this screen with whoever writes these lines."""
        self.record = record
        self.screen = screen
        self.file = file
        self._lines = lines
        self._at_keyboard = lines.isatty()
        self._acts: dict[str, Callable[[], None]] = {
            "": self._draw,
            "d": self._draw,
            "draw": self._draw,
            "t": self._turn_over,
            "redeal": self._turn_over,
            "stock": self._draw,
            "u": self._undo,
            "undo": self._undo,
            "h": self._hint,
            "hint": self._hint,
            "r": self._offer_resignation,
            "resign": self._resign,
            "m": self._show,
            "moves": self._show,
            "?": self._help,
            "help": self._help,
        }

    def play(self) -> int:
        """Play until the game is over, the player quits or the lines end.

        Returns:
            The exit code: 0, 1 if the game could not be kept in its file, 130 after an interrupt.
        """
        try:
            self._show()
            self.screen.say("? shows the commands.", style="dim")
            while self.record.game.status in {"playing", "lost"}:
                words = self._ask("> ").split(maxsplit=1)
                command = words[0].lower() if words else ""
                if command in {"q", "quit", "exit"}:
                    break
                self._obey(command, words)
            return 0 if self._part() else 1
        except EOFError:
            return 0 if self._leave() else 1
        except KeyboardInterrupt:
            self.screen.say()
            self._leave()
            return 130

    def _obey(self, command: str, words: list[str]) -> None:
        if command in {"s", "save"}:
            self._save_as(words[1].strip() if len(words) > 1 else "")
        elif command in self._acts and len(words) < 2:  # noqa: PLR2004
            self._acts[command]()
        else:
            try:
                move = self._move(" ".join(words))
            except NotAMoveError as error:
                self._refuse(error)
                self.screen.say("? shows the commands.", style="dim")
            except EngineError as error:
                self._refuse(error)
            else:
                self._make(move)

    def _move(self, text: str) -> Move:
        """Return the move that is meant: a number of the list, or a move's text in any case.

        Raises:
            EngineError: None is meant, or none fits.
        """
        if _NUMBER.fullmatch(text):
            moves = self.record.game.legal_moves()
            if not 1 <= int(text) <= len(moves):
                raise NotAMoveError(f"the list of moves has no {text}")
            return moves[int(text) - 1]
        if ":" not in text and text.count(" ") == 1:
            text = text.replace(" ", ":")
        origin, colon, destination = text.partition(":")
        position = self.record.game.position
        return position.resolve(_place(origin), _place(destination) if colon else None)

    def _make(self, move: Move) -> None:
        """Make a move and tell what it did, or why it is refused."""
        game = self.record.game
        hidden = move.source == STOCK
        number = EMPTY if hidden or game.resigned else game.moved_card(move)
        try:
            effects = self.record.enter(move)
        except EngineError as error:
            self._refuse(error)
            return
        tops = game.position.tops
        if move.kind == REDEAL:
            told = "The waste is turned over."
        elif hidden:
            number = tops[move.target]
            told = f"{CARDS[number]} is " + (
                "drawn." if move.kind == DRAW else f"put on {move.destination}."
            )
        else:
            told = f"{CARDS[number]} goes from {move.origin} to {move.destination}."
        for effect in effects:
            origin, _, place = effect.text.partition(":")
            card = CARDS[tops[effect.place]]
            told += (
                f" {card} is turned to the waste."
                if place == "waste"
                else f" {card} from the {origin} fills {place}."
            )
        self._done(told)

    def _draw(self) -> None:
        self._make(self.record.game.rules.parse("stock:waste"))

    def _turn_over(self) -> None:
        try:
            self._make(self.record.game.rules.parse("waste:stock"))
        except EngineError as error:
            self._refuse(error)

    def _undo(self) -> None:
        latest = self.record.game.standing()[-1:]
        try:
            self.record.enter(UNDO)
        except EngineError as error:
            self._refuse(error)
        else:
            self._done(f"Taken back: {latest[0].text}.")

    def _hint(self) -> None:
        try:
            self.record.enter(HINT)
        except EngineError as error:
            self._refuse(error)
            return
        self._keep()
        move, why = suggest(self.record.game.position)
        self.screen.say(self.screen.sentence(f"Try {move.text}: {why}."))

    def _offer_resignation(self) -> None:
        if self._agrees("Resign this game? y or n: "):
            self._resign()

    def _resign(self) -> None:
        try:
            self.record.enter(RESIGN)
        except EngineError as error:
            self._refuse(error)
        else:
            self._keep()

    def _refuse(self, error: EngineError) -> None:
        self.screen.say(self.screen.sentence(f"No: {error}."))

    def _done(self, told: str) -> None:
        self._keep()
        self._show()
        self.screen.say(self.screen.sentence(told))
        game = self.record.game
        if game.status == "lost":
            self.screen.say("Lost: no move is legal.", style="bold")
            self.screen.say("u takes the latest move back, q quits.", style="dim")

    def _show(self) -> None:
        game, screen, header = self.record.game, self.screen, self.record.header
        if self._at_keyboard:
            screen.console.clear()
        named = header["deal"]
        screen.title(
            header["ruleset"],
            f"{named['spec']} {named['seed']}",
            f"ply {game.ply}",
            f"score {game.position.score} of 104",
        )
        screen.say(screen.position(game.position))
        screen.say()
        moves = game.legal_moves()
        if moves:
            screen.say(screen.moves(game.position, moves))

    def _help(self) -> None:
        self.screen.say(Text(HELP))

    def _ask(self, question: str) -> str:
        """Return the next line; at a keyboard it is seen as typed, else it is shown here.

        Raises:
            EOFError: There is none.
        """
        self.screen.say(question, end="")
        self.screen.console.file.flush()
        line = self._lines.readline()
        if not self._at_keyboard:
            self.screen.say(line.rstrip("\r\n"))
        elif not line:
            self.screen.say()
        if not line:
            raise EOFError
        return line.strip()

    def _agrees(self, question: str) -> bool:
        return self._ask(question).lower() in {"y", "yes"}

    def _keep(self) -> None:
        if self.file is not None:
            self._save(self.file)

    def _save(self, path: Path) -> bool:
        try:
            self.record.save(path)
        except BAD_PATH as error:
            self._tell_unsaved(str(path), error)
            return False
        return True

    def _tell_unsaved(self, name: str, error: Exception) -> None:
        self.screen.say(f"Not saved in {name}: {reason(error)}.", style="bold")

    def _save_as(self, name: str) -> bool:
        """Save in a file of this name, or where the game is kept; return whether it was done."""
        path = self.file
        there = False
        try:
            if name:
                path = Path(name).expanduser()
                there = path != self.file and path.exists()
        except BAD_PATH as error:
            self._tell_unsaved(name, error)
            return False
        if path is None:
            self.screen.say("Say where: s FILE.")
            return False
        if there and not self._agrees(f"Replace {path}? y or n: "):
            return False
        if not self._save(path):
            return False
        self.screen.say(f"Saved in {path}.")
        return True

    def _part(self) -> bool:
        """Say how the game stands and save it if that is wanted; return whether it could be."""
        game = self.record.game
        status = game.status
        if status == "won":
            told = f"Won: all 104 cards are on foundations, in {len(game.standing())} moves."
            self.screen.say(told, style="bold green")
        elif status == "resigned":
            self.screen.say(f"Resigned. Score {game.position.score} of 104.", style="bold")
        if self.file is not None:
            return self._leave()
        while game.ply:
            name = self._ask("Save the replay? File, or Enter for no: ")
            if not name or self._save_as(name):
                break
        return True

    def _leave(self) -> bool:
        """Say where the game is, without a question; return whether it could be kept there."""
        game = self.record.game
        if self.file is None:
            if game.ply:
                self.screen.say("Not saved.")
            return True
        if not self._save(self.file):
            return False
        self.screen.say(f"Saved in {self.file}.")
        if game.status in {"playing", "lost"}:
            file = shlex.quote(str(self.file))
            self.screen.say(f"Go on with: rendezvous play --resume {file}")
        return True


def _place(text: str) -> str:
    """Return a place as moves name it, whatever its case; ``w`` is the waste."""
    text = text.strip().lower().translate(_FOUNDATION_SUITS)
    text = _PLACE.sub(lambda found: f"{found[1]}-{found[2].upper()}", text)
    return "waste" if text == "w" else text


def reason(error: Exception) -> str:
    """Return why something about a file failed, without its name."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def load(path: Path) -> bytes:
    """Return a file's text, or one byte more than a document may have.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return file.read(MAX_DOCUMENT_BYTES + 1)
