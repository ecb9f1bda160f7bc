"""The command line, mostly in this process, and as a program where a program is what matters."""

import io
import json
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from documents import GOLDEN, header, hidden_header, played, sealed_header
from programs import PROGRAM, judging_children, program, wait_until, watch

from service.cli import SERVER_COMMANDS, main
from service.drawing import Screen, printable
from service.engine import (
    DEFAULT_RULESET,
    RULESETS,
    Game,
    Position,
    deal,
    describe,
    table,
    verify_text,
)
from service.engine.cards import render_cards
from service.engine.verify import MAX_DOCUMENT_BYTES
from service.replay_files import MANY, Tally, find, judge
from service.terminal import HELP, Record, TerminalGame, suggest

VECTORS = Path(__file__).parent / "vectors"
ROOT = Path(__file__).parent.parent
EVERY_RULESET = pytest.mark.parametrize("ruleset", RULESETS)
ESCAPE = "\x1b"


def run(*arguments: str | Path, typed: str | bytes | None = None, columns: int = 80) -> Result:
    """Run a command in this process, at this width, without a terminal."""
    environment = {"COLUMNS": str(columns), "FORCE_COLOR": None, "NO_COLOR": None}
    return CliRunner().invoke(main, list(map(str, arguments)), input=typed, env=environment)


def text_of(document: Any) -> str:
    """Return a document as one line."""
    return json.dumps(document)


def valid_document(seed: str = "7") -> Any:
    """Return the document of a game that was given up after a move."""
    return played(header(seed=seed), [*first_move(seed), "resign"])


def first_move(seed: str) -> list[str]:
    """Return the first legal move of a deal, as a log."""
    game = Game(table(DEFAULT_RULESET), deal("deal-1", DEFAULT_RULESET, seed), undo_allowed=True)
    return [game.legal_moves()[0].text]


def lines_of(documents: Sequence[Any], count: int | None = None) -> str:
    """Return documents one a line, closed by their count or by another one."""
    closing = {"end": True, "count": len(documents) if count is None else count}
    return "".join(f"{text_of(document)}\n" for document in [*documents, closing])


VALID = text_of(valid_document())
UNFINISHED = text_of(played(header(), first_move("7")))
WRONG_SCORE = VALID.replace('"score": 13', '"score": 14')
UNSUPPORTED = VALID.replace("royal-rendezvous-1", "royal-rendezvous-99")


class TestGroup:
    def test_help_names_every_command_whether_the_server_is_installed_or_not(self) -> None:
        told = run("--help")

        assert told.exit_code == 0
        listed = re.findall(r"^  ([a-z]+)  ", told.stdout, re.MULTILINE)
        assert listed == ["deal", "rules", "play", "verify", "results", *SERVER_COMMANDS]

    def test_the_version_is_that_of_the_package(self) -> None:
        assert run("--version").stdout == f"rendezvous {version('royal-rendezvous')}\n"

    def test_an_unknown_command_is_a_usage_error(self) -> None:
        assert run("shuffle").exit_code == 2

    def test_the_command_line_loads_without_the_server(self) -> None:
        code = (
            "import sys, service.cli\n"
            "print({name.partition('.')[0] for name in sys.modules} & "
            "{'flask', 'sqlalchemy', 'marshmallow', 'psycopg', 'orjson', 'alembic', 'gunicorn'})"
        )

        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

        assert done.stdout == b"set()\n"

    def test_help_of_a_server_command_is_its_own(self) -> None:
        assert "Settings, all from the environment" in run("serve", "--help").stdout

    def test_every_server_command_that_is_listed_exists(self) -> None:
        for name in SERVER_COMMANDS:
            assert run(name, "--help").exit_code == 0, name


class TestWithoutTheServer:
    """The base installation: click and rich, and nothing of the server."""

    @pytest.fixture
    def packages(self, tmp_path: Path) -> Path:
        """A folder of all that the base installation has."""
        for name in ("click", "rich", "markdown_it", "mdurl", "pygments"):
            spec = find_spec(name)
            assert spec
            assert spec.origin
            (tmp_path / name).symlink_to(Path(spec.origin).parent)
        return tmp_path

    def run(self, packages: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        code = f"import sys; sys.path.insert(0, {str(packages)!r}); import service.cli as cli"
        command = [sys.executable, "-I", "-S", "-c", f"{code}; cli.main()", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def copy(self, packages: Path, server_cli: str) -> None:
        kept = shutil.ignore_patterns("api", "store", "web", "__pycache__", "server_cli.py")
        shutil.copytree(ROOT / "service", packages / "service", ignore=kept)
        (packages / "service" / "server_cli.py").write_text(server_cli, encoding="ascii")

    def test_deal_play_and_verify_work(self, packages: Path, tmp_path: Path) -> None:
        (packages / "service").symlink_to(ROOT / "service")
        (tmp_path / "game.json").write_text(VALID, encoding="ascii")

        assert self.run(packages, "deal", "7").returncode == 0
        assert self.run(packages, "play", "--seed", "7").returncode == 0
        assert self.run(packages, "verify", str(tmp_path / "game.json")).returncode == 0

    def test_a_server_command_says_what_to_install(self, packages: Path) -> None:
        (packages / "service").symlink_to(ROOT / "service")

        for command in SERVER_COMMANDS:
            done = self.run(packages, command, "--help")

            assert done.returncode == 2
            told = f"{command} needs the server: pip install 'royal-rendezvous[server]'"
            assert told in done.stderr
            assert "Traceback" not in done.stderr

    def test_a_broken_module_of_ours_is_not_taken_for_a_missing_package(
        self, packages: Path
    ) -> None:
        self.copy(packages, "import service.nowhere\n")

        done = self.run(packages, "audit")

        assert done.returncode == 1
        assert "No module named 'service.nowhere'" in done.stderr
        assert "pip install" not in done.stderr

    def test_a_server_command_is_run_where_it_can_be_loaded(self, packages: Path) -> None:
        self.copy(
            packages,
            "import click\n"
            "@click.command()\n"
            "@click.argument('word')\n"
            "def audit(word): click.echo(f'audited {word}')\n"
            "COMMANDS = {'audit': audit}\n",
        )

        assert self.run(packages, "audit", "well").stdout == "audited well\n"


class TestDeal:
    def test_the_cards_are_those_of_the_published_deals(self) -> None:
        for vector in json.loads((VECTORS / "deal-1.json").read_text())["deals"]:
            cards = json.loads(run("deal", "--json", "--", vector["seed"]).stdout)

            assert (cards["reserve"], cards["stock"]) == (vector["reserve"], vector["stock"])
            assert cards["deal"] == {"spec": "deal-1", "seed": vector["seed"]}

    @EVERY_RULESET
    def test_json_holds_the_layout_and_the_position_it_begins_with(self, ruleset: str) -> None:
        cards = json.loads(
            run("deal", "12", "--spec", "pysol-1", "--ruleset", ruleset, "--json").stdout
        )

        layout = deal("pysol-1", ruleset, "12")
        assert cards["reserve"] == render_cards(layout.reserve)
        assert cards.get("columns", []) == list(map(render_cards, layout.columns))
        assert cards["stock"] == render_cards(layout.stock)
        assert cards["position"] == Position(table(ruleset), layout).render(stock=True)

    @EVERY_RULESET
    def test_the_drawing_fits_80_columns_and_shows_every_open_card(self, ruleset: str) -> None:
        told = run("deal", "7", "--ruleset", ruleset, "--ascii")

        position = Position(table(ruleset), deal("deal-1", ruleset, "7"))
        shown = told.stdout.replace("10", "T").replace("[", " ").replace("]", " ").split()
        assert max(map(len, told.stdout.splitlines())) <= 80
        for place, card in zip(table(ruleset).places, position.tops, strict=True):
            assert place in told.stdout
            assert card == 52 or render_cards([card])[0] in shown

    def test_columns_of_unequal_length_stand_side_by_side(self) -> None:
        rules = table("royal-cotillion-1")
        text = "5---/---- 2C--4C5C6C7C8C9C/TCJCQCKC2D3D4D5D 3C5H/--/7C/8HTHKS"
        position = Position.parse(rules, f"{text} - -")
        told = io.StringIO()
        screen = Screen(told, ascii_only=True)

        screen.say(screen.position(position))

        lines = [line[:24].rstrip() for line in told.getvalue().splitlines()[4:8]]
        assert lines == [
            " c1    c2    c3    c4",
            " 3C         [7C]   8H",
            " 5H                10H",
            "                   KS",
        ]

    def test_the_drawing_hides_the_stock_unless_asked(self) -> None:
        layout = deal("deal-1", DEFAULT_RULESET, "7")
        pattern = r"\s+".join(card.replace("T", "10") for card in render_cards(layout.stock))

        assert not re.search(pattern, run("deal", "7", "--ascii").stdout)
        assert re.search(pattern, run("deal", "7", "--ascii", "--stock").stdout)

    def test_cards_that_can_go_stand_in_brackets(self) -> None:
        told = run("deal", "7").stdout

        assert re.findall(r"\[(\w+.)\]", told) == ["4♥", "2♠", "2♦", "3♥"]

    @pytest.mark.parametrize("seed", ["7", "-7", "it's;$HOME", "x" * 64, "--"])
    def test_the_last_line_deals_the_same_again(self, seed: str) -> None:
        told = run("deal", "--ruleset", "odd-and-even-1", "--", seed)

        again = shlex.split(told.stdout.splitlines()[-1].removeprefix("Again: "))
        assert again[:2] == ["rendezvous", "deal"]
        assert run(*again[1:]).stdout == told.stdout

    @pytest.mark.parametrize("spec", ["deal-1", "pysol-1"])
    def test_without_a_seed_a_new_short_one_is_drawn(self, spec: str) -> None:
        seeds = {
            json.loads(run("deal", "--spec", spec, "--json").stdout)["deal"]["seed"]
            for _ in range(5)
        }

        assert len(seeds) == 5
        assert all(len(seed) <= 10 and deal(spec, DEFAULT_RULESET, seed) for seed in seeds)

    def test_a_numbered_deal_is_told_without_leading_zeros(self) -> None:
        assert "pysol-1 7" in run("deal", "007", "--spec", "pysol-1").stdout

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["a b"], "printable ASCII characters without the space"),
            (["x" * 65], "1 to 64"),
            (["ms0", "--spec", "pysol-1"], "from 1 to 8589934591"),
            (["7", "--ruleset", "klondike"], "'odd-and-even-pysol-1'"),
            (["7", "--spec", "deal-2"], "'deal-1', 'pysol-1'"),
        ],
    )
    def test_what_does_not_exist_is_a_usage_error_that_names_the_choices(
        self, arguments: list[str], said: str
    ) -> None:
        told = run("deal", *arguments)

        assert told.exit_code == 2
        assert said in told.stderr.replace("\n", " ")

    @pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
    def test_suits_are_letters_where_the_encoding_has_no_signs(self, encoding: str) -> None:
        done = program("deal", "7", PYTHONIOENCODING=encoding)

        assert done.returncode == 0
        assert b"[4H]" in done.stdout
        assert done.stdout.isascii()


class TestRules:
    def test_every_ruleset_is_listed_in_a_line_of_its_own(self) -> None:
        told = run("rules").stdout

        for name, ruleset in RULESETS.items():
            assert re.search(rf"^  {name} +{ruleset.edition}", told, re.MULTILINE)
        assert f"{DEFAULT_RULESET} " in next(
            line for line in told.splitlines() if "(the default)" in line
        )
        assert max(map(len, told.splitlines())) <= 80

    @EVERY_RULESET
    def test_the_rules_are_told_whole(self, ruleset: str) -> None:
        told = run("rules", ruleset).stdout

        together = " ".join(told.split())
        for point, sentences in describe(ruleset).items():
            assert f"{point} {sentences}" in together
        assert max(map(len, told.splitlines())) <= 80

    def test_an_unknown_ruleset_is_a_usage_error_that_names_the_choices(self) -> None:
        told = run("rules", "klondike")

        assert told.exit_code == 2
        assert "odd-and-even-1" in told.stderr


class TestPlay:
    def play(self, *typed: str, options: Sequence[str | Path] = ()) -> Result:
        """Play the deal of seed 7, with these lines typed."""
        return run("play", "--seed", "7", *options, typed="".join(f"{line}\n" for line in typed))

    def saved(self, folder: Path, *typed: str, options: Sequence[str | Path] = ()) -> Any:
        """Return the document of a game that was played so."""
        file = folder / f"{len([*folder.iterdir()])}.json"
        assert self.play(*typed, options=[*options, "--save", file]).exit_code == 0
        return json.loads(file.read_text(encoding="ascii"))

    def test_a_move_may_be_given_in_many_ways(self, tmp_path: Path) -> None:
        for typed in ("r4", "R4", "2", "r4:upper-S", "R4:UPPER-s", "r4 upper-s", "r4:upper-♠"):
            assert self.saved(tmp_path, typed)["log"] == ["r4:upper-S"], typed

    def test_what_the_rules_do_by_themselves_is_told(self) -> None:
        assert "2♠ goes from r4 to upper-S. J♣ from the stock fills r4." in self.play("r4").stdout

    def test_a_drawn_card_is_told(self) -> None:
        options = ["--ruleset", "royal-rendezvous-relaxed-1"]

        for typed in ("", "d", "draw", "stock"):
            assert "J♣ is drawn." in self.play(typed, options=options).stdout

    def test_a_turn_by_itself_is_told(self) -> None:
        options = ["--ruleset", "royal-rendezvous-pysol-1"]

        told = self.play("r1", options=options).stdout

        assert "J♣ from the waste fills r1. 5♠ is turned to the waste." in told

    @pytest.mark.parametrize(
        ("typed", "reason"),
        [
            ("", "drawing waits until no reserve card can go to a foundation: r1, r4, r5, r10 can"),
            ("r2", "no foundation takes Q♥ from r2 now"),
            ("r1:upper-H", "upper-H wants 2♥, not 4♥"),
            ("r1:deuce-S", "deuce-S is built in its own suit, 4♥ is of another"),
            ("r99", "nothing goes from 'r99' to foundations in royal-rendezvous-1"),
            ("99", "the list of moves has no 99"),
            ("0", "the list of moves has no 0"),
            ("t", "'waste:stock' is not a move of royal-rendezvous-1"),
            ("u", "there is no move to take back"),
            ("w", "waste is empty"),
            ("hello", "nothing goes from 'hello' to foundations"),
            ("one two three", "nothing goes from 'one two three' to foundations"),
            ("r1 two", "'r1:two' is not a move of royal-rendezvous-1"),
        ],
    )
    def test_a_refusal_is_explained_and_changes_nothing(
        self, typed: str, reason: str, tmp_path: Path
    ) -> None:
        told = self.play(typed).stdout

        assert f"No: {reason}" in told.replace("\n", " ")
        assert self.saved(tmp_path, typed)["log"] == []

    def test_a_card_that_fits_twice_asks_for_the_foundation(self) -> None:
        told = run("play", "--seed", "3", typed="r5:upper-S\nr12\nr12:lower-S\n").stdout

        assert "No: 3♠ on r12 fits upper-S and lower-S: name one." in told
        assert "3♠ goes from r12 to lower-S." in told

    def test_undo_takes_a_move_back(self, tmp_path: Path) -> None:
        told = self.play("r4", "u")
        document = self.saved(tmp_path, "r4", "undo", "r1")

        assert "Taken back: r4:upper-S." in told.stdout
        assert document["log"] == ["r4:upper-S", "undo", "r1:deuce-H"]
        assert document["result"]["undos"] == 1

    def test_a_hint_is_counted_and_moves_nothing(self, tmp_path: Path) -> None:
        told = self.play("h")
        document = self.saved(tmp_path, "hint")

        assert "Try r4:upper-S: 2♠ is the lowest card that can go." in told.stdout
        assert document["log"] == ["hint"]
        assert document["result"]["hints"] == 1

    def test_resigning_ends_the_game_once_it_is_confirmed(self, tmp_path: Path) -> None:
        assert self.saved(tmp_path, "r", "n", "r4")["log"] == ["r4:upper-S"]
        assert self.saved(tmp_path, "r", "y", "r4")["log"] == ["resign"]
        assert self.saved(tmp_path, "resign", "r4")["log"] == ["resign"]

    def test_help_tells_the_commands(self) -> None:
        assert HELP in self.play("?").stdout
        assert max(map(len, HELP.splitlines())) <= 80

    def test_the_position_is_shown_again_on_demand(self) -> None:
        assert self.play("m").stdout.count("stock 76   waste 0") == 2

    def test_a_player_may_fill_places_where_the_rules_leave_it_to_them(
        self, tmp_path: Path
    ) -> None:
        options = ["--ruleset", "royal-rendezvous-open-1"]

        told = self.play("r4", "stock:r4", options=options)
        document = self.saved(tmp_path, "r4", "d", "waste:r4", options=options)

        assert "?? stock:r4" in " ".join(told.stdout.split())
        assert "J♣ is put on r4." in told.stdout
        assert document["log"] == ["r4:upper-S", "stock:waste", "waste:r4"]

    def test_the_waste_is_turned_over_where_the_rules_allow_it(self) -> None:
        told = self.play(*["d"] * 95, "t", "t", options=["--ruleset", "odd-and-even-1"]).stdout

        assert "stock 0 (one redeal left)   waste 95" in told
        assert "The waste is turned over." in told
        assert "stock 95 (no redeal left)   waste 0" in told
        assert "No: the waste has been turned over as often as it may be." in told

    def test_a_game_played_through_by_its_texts_is_won_saved_and_valid(
        self, tmp_path: Path
    ) -> None:
        start = Position(table(DEFAULT_RULESET), deal("deal-1", DEFAULT_RULESET, "3"))
        moves = [move.text for move in suggested(start)]
        file = tmp_path / "won.json"

        told = run("play", "--seed", "3", "--save", file, typed="\n".join(moves) + "\nr1\n")

        assert told.exit_code == 0
        assert f"Won: all 104 cards are on foundations, in {len(moves)} moves." in told.stdout
        verdict = verify_text(file.read_bytes())
        assert verdict.verdict == "valid"
        assert verdict.result
        assert verdict.result["status"] == "won"

    @pytest.mark.no_cover
    @EVERY_RULESET
    def test_every_game_is_played_to_its_end_and_what_is_saved_is_valid(
        self, ruleset: str, tmp_path: Path
    ) -> None:
        start = Position(table(ruleset), deal("deal-1", ruleset, "5"))
        log = [move.text for move in suggested(start)]
        file = tmp_path / "game.json"

        told = run(
            *("play", "--ruleset", ruleset, "--seed", "5", "--save", file),
            typed="\n".join([*log, "resign", "y"]),
        )

        document = json.loads(file.read_bytes())
        assert told.exit_code == 0
        assert document["log"] in (log, [*log, "resign"])
        assert document["header"]["ruleset"] == ruleset
        assert verify_text(file.read_bytes()).verdict == "valid"

    def test_a_lost_game_may_be_gone_back_in(self, tmp_path: Path) -> None:
        moves = suggested(Position(table(DEFAULT_RULESET), deal("deal-1", DEFAULT_RULESET, "0")))
        typed = [move.text for move in moves]
        file = tmp_path / "lost.json"

        told = run(
            "play",
            "--seed",
            "0",
            "--save",
            file,
            typed="\n".join([*typed, "h", "resign", "u", "q"]),
        )
        resumed = run("play", "--resume", file, typed="u\nu\n")

        assert "Lost: no move is legal." in told.stdout
        assert told.stdout.count("No: the game is over: lost.") == 2
        assert resumed.stdout.count("Taken back:") == 2
        assert json.loads(file.read_bytes())["log"][-3:] == ["undo"] * 3

    @EVERY_RULESET
    def test_the_first_screen_fits_a_small_terminal(self, ruleset: str) -> None:
        for seed in range(20):
            lines = run("play", "--ruleset", ruleset, "--seed", str(seed)).stdout.splitlines()

            assert max(map(len, lines)) <= 80
            assert len(lines) <= 23

    def test_bytes_that_are_no_text_are_refused_like_any_other_word(self) -> None:
        told = run("play", "--seed", "7", typed=b"\xff\xfe\x1b[2J\nr4\n")

        assert told.exit_code == 0
        assert ESCAPE not in told.stdout
        assert "2♠ goes from r4 to upper-S." in told.stdout

    def test_the_end_of_input_ends_the_game_without_a_question(self, tmp_path: Path) -> None:
        assert self.play().exit_code == 0
        assert self.play("r4").stdout.endswith("Not saved.\n")
        told = self.play("r4", options=["--save", tmp_path / "my game.json"]).stdout
        assert told.endswith(
            f"Go on with: rendezvous play --resume '{tmp_path / 'my game.json'}'\n"
        )

    def test_quitting_offers_to_save(self, tmp_path: Path) -> None:
        nowhere, file = tmp_path / "no" / "game.json", tmp_path / "game.json"

        refused = self.play("r4", "q", "")
        told = self.play("r4", "q", str(nowhere), str(file)).stdout

        assert refused.stdout.endswith("Save the replay? File, or Enter for no: \n")
        assert f"Not saved in {nowhere}: No such file or directory." in told
        assert told.endswith(f"Saved in {file}.\n")
        assert verify_text(file.read_bytes()).verdict == "incomplete"

    def test_a_game_that_cannot_be_kept_is_told_as_a_failure(self, tmp_path: Path) -> None:
        record = Record.begin(DEFAULT_RULESET, "deal-1", "7")
        for typed in ("r4\n", "r4\nq\n"):
            told = io.StringIO()

            game = TerminalGame(
                record, Screen(told), io.StringIO(typed), file=tmp_path / "gone" / "game.json"
            )

            assert game.play() == 1
            assert "Not saved in" in told.getvalue()

    def test_quitting_an_untouched_game_asks_nothing(self) -> None:
        assert self.play("q").stdout.endswith("> q\n")

    def test_a_replay_is_saved_on_demand_and_replaces_a_file_only_if_that_is_wanted(
        self, tmp_path: Path
    ) -> None:
        file = tmp_path / "my game.json"
        file.write_text("mine", encoding="ascii")

        assert "Say where: s FILE." in self.play("s").stdout
        self.play(f"s {file}", "n")
        assert file.read_text(encoding="ascii") == "mine"
        self.play("r4", f"s {file}", "y", "u")
        assert json.loads(file.read_bytes())["log"] == ["r4:upper-S"]
        assert [*tmp_path.iterdir()] == [file]

    @pytest.mark.parametrize("name", ["x" * 300, "~nobody_at_all/x", "\0", "/", "loop/x"])
    def test_a_name_that_no_file_can_have_is_told_and_the_game_goes_on(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("loop").symlink_to("loop")

        told = self.play(f"s {name}", "y", "r4")

        assert told.exit_code == 0
        assert "Not saved in" in told.stdout
        assert "2♠ goes from r4 to upper-S." in told.stdout
        assert name == "\0" or self.play(options=["--save", name]).exit_code == 2

    def test_a_game_is_kept_move_by_move(self, tmp_path: Path) -> None:
        first, second = tmp_path / "first.json", tmp_path / "second.json"

        self.play("r4", f"s {second}", "r1", "s", options=["--save", first])

        assert json.loads(second.read_bytes())["log"] == ["r4:upper-S"]
        assert json.loads(first.read_bytes())["log"] == ["r4:upper-S", "r1:deuce-H"]

    def test_ids_are_new_ones_and_the_header_is_that_of_a_practice_game(
        self, tmp_path: Path
    ) -> None:
        before = time.time_ns() // 10**6
        heads = [self.saved(tmp_path, "r4")["header"] for _ in range(2)]

        assert len({head[name] for head in heads for name in ("id", "player")}) == 4
        assert heads[0]["deal"] == {"spec": "deal-1", "seed": "7"}
        assert before <= heads[0]["created_at"] <= time.time_ns() // 10**6

    def test_instants_never_fall_though_the_clock_does(self) -> None:
        clock = iter([5000, 5010, 4000, 6000])
        record = Record.begin(DEFAULT_RULESET, "deal-1", "7", clock=lambda: next(clock))

        for text in ("r4:upper-S", "undo", "hint"):
            record.enter(record.game.rules.parse(text))

        assert record.times == [10, 10, 1000]

    def test_a_saved_game_is_gone_on_with_under_its_own_ids(self, tmp_path: Path) -> None:
        file, other = tmp_path / "game.json", tmp_path / "other.json"
        start = {**played(header(), ["r4:upper-S", "undo"]), "extra": {"club": "Monday"}}
        file.write_text(text_of(start), encoding="ascii")

        told = run("play", "--resume", file, typed="r1\n")
        run("play", "--resume", file, "--save", other, typed="r4\n")

        document = json.loads(file.read_bytes())
        assert told.exit_code == 0
        assert document["header"] == start["header"]
        assert document["extra"] == {"club": "Monday"}
        assert document["log"] == ["r4:upper-S", "undo", "r1:deuce-H"]
        assert document["times"][:2] == start["times"]
        assert json.loads(other.read_bytes())["log"][-2:] == ["r1:deuce-H", "r4:upper-S"]
        assert verify_text(file.read_bytes()).verdict == "incomplete"

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (VALID, "the game is over: resigned"),
            (WRONG_SCORE, "score: the log gives 13, the document 14"),
            (UNSUPPORTED, "'royal-rendezvous-99' is not known here"),
            ("{", "not JSON"),
            ("\0" * (MAX_DOCUMENT_BYTES + 1), "longer than"),
            (text_of(played(hidden_header(), [])), "a game of a server"),
            (text_of(played(sealed_header(), [])), "a game of a server"),
        ],
    )
    def test_only_a_sound_unfinished_practice_game_is_gone_on_with(
        self, text: str, reason: str, tmp_path: Path
    ) -> None:
        file = tmp_path / "game.json"
        file.write_text(text, encoding="ascii")

        told = run("play", "--resume", file, typed="r1\n")

        assert told.exit_code == 2
        assert reason in " ".join(told.stderr.split())
        assert file.read_text(encoding="ascii") == text

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (["--save", "there.json"], "is there already"),
            (["--save", "no/game.json"], "there is no folder"),
            (["--save", "."], "is a directory"),
            (["--resume", "no.json"], "does not exist"),
            (["--resume", "there.json", "--seed", "7"], "exclude each other"),
            (["--seed", "a b"], "without the space"),
            (["--ruleset", "klondike"], "is not one of"),
        ],
    )
    def test_wrong_options_are_usage_errors(
        self, options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("there.json").write_text(UNFINISHED, encoding="ascii")

        told = run("play", *options)

        assert told.exit_code == 2
        assert said in told.stderr

    def test_ctrl_c_ends_the_game_politely_and_nothing_is_lost(self, tmp_path: Path) -> None:
        file = tmp_path / "game.json"
        with subprocess.Popen(
            [PROGRAM, "play", "--seed", "7", "--save", file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdin
            process.stdin.write(b"r4\n")
            process.stdin.flush()
            wait_until(file.exists)
            process.send_signal(signal.SIGINT)
            told, errors = process.communicate(timeout=30)

        assert process.returncode == 130
        assert told.decode().endswith(f"Go on with: rendezvous play --resume {file}\n")
        assert errors == b""
        assert json.loads(file.read_bytes())["log"] == ["r4:upper-S"]


def suggested(position: Position) -> Iterator[Any]:
    """Yield the moves that are suggested from here on, and make them."""
    while position.outcome == "playing":
        move, _ = suggest(position)
        yield move
        position.apply(move)


class TestSuggestions:
    @EVERY_RULESET
    def test_a_suggestion_is_legal_and_does_not_look_at_the_stock(self, ruleset: str) -> None:
        rng = random.Random(7)
        for seed in range(5):
            position = Position(table(ruleset), deal("deal-1", ruleset, str(seed)))
            for _ in range(150):
                if position.outcome != "playing":
                    break
                move, why = suggest(position)
                other = position.copy()
                rng.shuffle(other.stock)

                assert position.is_legal(move)
                assert suggest(other) == (move, why)

                position.apply(rng.choice([move, rng.choice(position.legal_moves())]))

    def test_suggestions_win_more_than_random_moves(self) -> None:
        def win(choose: Callable[[Position], Any], seed: int) -> bool:
            layout = deal("deal-1", "royal-rendezvous-relaxed-1", str(seed))
            position = Position(table("royal-rendezvous-relaxed-1"), layout)
            while position.outcome == "playing":
                position.apply(choose(position))
            return position.outcome == "won"

        rng = random.Random(7)
        suggested = sum(win(lambda position: suggest(position)[0], seed) for seed in range(30))
        at_random = sum(
            win(lambda position: rng.choice(position.legal_moves()), seed) for seed in range(30)
        )

        assert suggested >= 8
        assert at_random <= 3


class TestTerminal:
    """What differs where a person watches."""

    def test_red_suits_are_red_and_the_screen_is_cleared_for_every_position(self) -> None:
        written, code = watch(["play", "--seed", "7"], b"r4\nq\n\n")

        assert code == 0
        assert f"{ESCAPE}[31m" in written
        assert written.count(f"{ESCAPE}[2J") == 2
        assert "2♠ goes from r4 to upper-S." in re.sub(rf"{ESCAPE}\[[0-9;]*m", "", written)

    def test_no_colour_is_used_where_none_is_wanted(self) -> None:
        written, _ = watch(["deal", "7"], NO_COLOR="1")

        assert not re.search(rf"{ESCAPE}\[[0-9;]*3[0-9]", written)
        assert "[2♠]" in re.sub(rf"{ESCAPE}\[[0-9;]*m", "", written)

    def test_ctrl_d_ends_the_game(self) -> None:
        written, code = watch(["play", "--seed", "7"], b"r4\n\x04")

        assert code == 0
        assert "Not saved." in written

    def test_verify_asks_for_something_to_verify_instead_of_waiting(self) -> None:
        written, code = watch(["verify"])

        assert code == 2
        assert "Give a file, a folder, or - for standard input." in written

    def test_long_verifying_shows_how_far_it_is_and_gives_way_to_what_is_found(
        self, tmp_path: Path
    ) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)

        def write() -> None:
            with pipe.open("w", encoding="ascii") as file:
                for text in (VALID, VALID, WRONG_SCORE, '{"end": true, "count": 3}'):
                    file.write(f"{text}\n")
                    file.flush()
                    time.sleep(0.6)

        writing = threading.Thread(target=write)
        writing.start()
        written, code = watch(["verify", "--quiet", pipe])
        writing.join()

        assert code == 1
        shown, _, found = written.partition("invalid")
        assert re.search("[12] verified, 0 bad", shown)
        assert f"{pipe}:3" in found


class TestVerify:
    @pytest.fixture(autouse=True)
    def _in_a_folder_of_its_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    def write(self, name: str, text: str | bytes) -> Path:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("ascii") if isinstance(text, str) else text)
        return path

    def rows(self, *arguments: str | Path, typed: str | bytes | None = None) -> list[Any]:
        """Return the rows of a run that writes JSON, the summary last."""
        return [
            json.loads(row)
            for row in run("verify", "--json", *arguments, typed=typed).stdout.splitlines()
        ]

    @pytest.mark.parametrize(
        ("texts", "code"),
        [
            ([VALID, VALID], 0),
            ([VALID, WRONG_SCORE, UNFINISHED], 1),
            ([VALID, UNFINISHED], 3),
            ([UNSUPPORTED], 3),
            (["{"], 1),
            ([""], 1),
        ],
    )
    def test_the_exit_code_is_that_of_the_worst_document(self, texts: list[str], code: int) -> None:
        files = [self.write(f"{n}.json", text) for n, text in enumerate(texts)]

        assert run("verify", *files).exit_code == code

    def test_the_table_says_for_each_file_what_it_is_worth_and_why(self) -> None:
        texts = {"a": VALID, "b": WRONG_SCORE, "c": UNFINISHED, "d": UNSUPPORTED}
        files = [self.write(f"{name}.json", text) for name, text in texts.items()]

        told = run("verify", *files).stdout.splitlines()

        assert told[:-1] == [
            "verdict      level      result        replay",
            "valid                   resigned 13   a.json",
            "invalid      outcome                  b.json",
            "  /result/score: score: the log gives 13, the document 14",
            "incomplete              playing 13    c.json",
            "  the game is not finished",
            "unsupported  structure                d.json",
            *(line for line in told if "royal-rendezvous-99" in line),
            "",
            "1 valid, 1 invalid, 1 incomplete, 1 unsupported.",
        ]
        assert told[-1].startswith("4 replays in 4 files, ")

    def test_the_entry_of_an_illegal_move_is_named(self) -> None:
        document = {**json.loads(VALID), "log": ["r1:deuce-H", "r1:deuce-H"]}
        file = self.write("game.json", text_of(document))

        told = run("verify", file).stdout

        assert "invalid      rules                    game.json" in told
        assert "entry 1: r1:deuce-H: " in told

    def test_a_hidden_deal_that_is_not_revealed_is_told_as_such(self) -> None:
        document = played(hidden_header(), ["resign"], revealed=False)
        file = self.write("game.json", text_of(document))

        told = run("verify", file)

        assert told.exit_code == 3
        assert "the deal's seed is not revealed" in told.stdout

    def test_the_recorded_games_are_valid(self) -> None:
        summary = self.rows(GOLDEN)[-1]["summary"]

        assert summary["invalid"] == summary["unsupported"] == summary["file_faults"] == 0
        assert summary["valid"] > 0

    def test_json_gives_a_line_a_document_and_then_the_counts(self) -> None:
        self.write("games/a.json", VALID)
        self.write("games/b.ndjson", lines_of([json.loads(WRONG_SCORE), valid_document("8")]))

        *rows, last = self.rows("games")

        assert [(row["file"], row.get("line"), row["verdict"]) for row in rows] == [
            ("games/a.json", None, "valid"),
            ("games/b.ndjson", 1, "invalid"),
            ("games/b.ndjson", 2, "valid"),
        ]
        assert rows[1]["problem"]["pointer"] == "/result/score"
        assert rows[0]["levels"]["rules"] == {"state": "pass"}
        seconds = last["summary"].pop("seconds")
        assert seconds >= 0
        assert last == {
            "summary": {
                "files": 2,
                "documents": 3,
                "valid": 2,
                "invalid": 1,
                "incomplete": 0,
                "unsupported": 0,
                "file_faults": 0,
            }
        }

    def test_quiet_leaves_out_what_is_valid(self) -> None:
        good, bad = self.write("a.json", VALID), self.write("b.json", WRONG_SCORE)

        assert run("verify", "--quiet", good).stdout == ""
        assert "a.json" not in run("verify", "--quiet", good, bad).stdout
        assert [row.get("file") for row in self.rows("--quiet", good, bad)] == ["b.json", None]

    @pytest.mark.parametrize("suffix", [".ndjson", ".jsonl", ".NDJSON", ".json", ".txt"])
    @pytest.mark.parametrize(
        ("end", "step"), [("\n", 1), ("\r\n", 1), ("\n\n", 2), ("\n \t\r\n", 2)]
    )
    def test_documents_may_stand_one_a_line_with_any_line_ends(
        self, suffix: str, end: str, step: int
    ) -> None:
        text = lines_of([valid_document("7"), valid_document("8")]).replace("\n", end)
        file = self.write(f"games{suffix}", b"\xef\xbb\xbf" + text.encode("ascii"))

        *rows, last = self.rows(file)

        assert [row["line"] for row in rows] == [1, 1 + step]
        assert last["summary"]["valid"] == 2
        assert last["summary"]["file_faults"] == 0

    @pytest.mark.parametrize(
        ("text", "line", "said"),
        [
            (lines_of([valid_document()] * 3).rsplit("\n", 2)[0] + "\n", None, "closing line"),
            (f"{VALID}\n", None, "closing line"),
            ("", None, "closing line"),
            (lines_of([valid_document()] * 3, 4), 4, "counts 4 documents, but 3 came before it"),
            (lines_of([valid_document()] * 3, 2), 4, "counts 2 documents, but 3 came before it"),
            (lines_of([valid_document()]) + VALID, None, "closing line"),
            (lines_of([], 1), 1, "counts 1 documents, but 0 came before it"),
        ],
    )
    def test_a_part_of_a_file_is_not_taken_for_the_whole(
        self, text: str, line: int | None, said: str
    ) -> None:
        file = self.write("games.ndjson", text)

        told = run("verify", file)
        *_, fault, last = self.rows(file)

        assert told.exit_code == 1
        assert "truncated    file" in told.stdout
        assert said in told.stdout
        assert (fault["file"], fault.get("line")) == ("games.ndjson", line)
        assert fault["problem"]["code"] == "truncated"
        assert last["summary"]["file_faults"] == 1
        assert last["summary"]["invalid"] == 0

    def test_files_that_were_joined_are_each_held_to_their_closing_line(self) -> None:
        whole = lines_of([valid_document()] * 2)
        cut = whole.partition("\n")[2]

        assert run("verify", self.write("a.ndjson", whole + whole)).exit_code == 0
        told = run("verify", self.write("b.ndjson", cut + whole))
        assert told.exit_code == 1
        assert "3 valid" in told.stdout

    def test_an_empty_export_is_valid_and_complete(self) -> None:
        told = run("verify", self.write("games.ndjson", lines_of([])))

        assert told.exit_code == 0
        assert "0 valid" in told.stdout

    def test_a_closing_line_may_tell_where_the_next_export_begins(self) -> None:
        end = '{"end": true, "count": 1, "next": "2026-01-31T12:00:00.000Z"}'

        *rows, last = self.rows(self.write("games.ndjson", f"{VALID}\n{end}\n"))

        assert [row["verdict"] for row in rows] == ["valid"]
        assert last["summary"]["file_faults"] == 0

    @pytest.mark.parametrize(
        "closing",
        [
            '{"end": true, "count": 1, "next": 1}',
            '{"end": true, "count": 1, "more": ""}',
            '{"end": false, "count": 1}',
            '{"end": true, "count": true}',
            '{"end": 1, "count": 1}',
        ],
    )
    def test_a_closing_line_of_another_form_closes_nothing(self, closing: str) -> None:
        *rows, last = self.rows(self.write("games.ndjson", f"{VALID}\n{closing}\n"))

        assert [row["verdict"] for row in rows] == ["valid", "invalid", "invalid"]
        assert last["summary"]["file_faults"] == 1

    def test_a_bad_line_is_named_and_the_others_are_still_verified(self) -> None:
        text = lines_of([valid_document()] * 3).split("\n")
        text[1] = text[1][:-5]
        file = self.write("games.ndjson", "\n".join(text))

        *rows, last = self.rows(file)

        assert [row["verdict"] for row in rows] == ["valid", "invalid", "valid"]
        assert rows[1]["problem"]["code"] == "malformed"
        assert last["summary"]["file_faults"] == 0

    def test_a_document_may_be_as_long_as_the_limit_and_no_longer(self) -> None:
        fill = MAX_DOCUMENT_BYTES - len(VALID)
        at_limit, over = VALID + " " * fill, VALID + " " * (fill + 1)

        for text, verdict in ((at_limit, "valid"), (over, "invalid")):
            lines = f'\ufeff{text}\r\n{VALID}\r\n{{"end": true, "count": 2}}\r\n'.encode()
            rows = self.rows(self.write("a.json", text), self.write("b.ndjson", lines))

            assert [row.get("verdict") for row in rows] == [verdict, verdict, "valid", None]

    @pytest.mark.skipif(sys.platform != "linux", reason="memory is told in /proc")
    @pytest.mark.parametrize("name", ["long.json", "long.ndjson"])
    def test_an_endless_line_is_malformed_and_never_in_memory(self, name: str) -> None:
        with self.write(name, b"").open("r+b") as file:
            file.truncate(1 << 27)
        code = (
            "import atexit, pathlib\n"
            "atexit.register(lambda: print(pathlib.Path('/proc/self/status').read_text()))\n"
            "from service.cli import main\n"
            f"main(['verify', '{name}'])"
        )

        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)

        assert done.returncode == 1
        assert b"longer than 1048576 bytes" in done.stdout
        peak = re.search(rb"VmHWM:\s+([0-9]+) kB", done.stdout)
        assert peak
        assert int(peak[1]) < 80_000

    def test_standard_input_may_be_a_document_or_documents_one_a_line(self) -> None:
        pretty = json.dumps(valid_document(), indent=2)
        for typed in (VALID, f"{VALID}\n", pretty, f"\n\n{pretty}"):
            row, _ = self.rows("-", typed=typed)
            assert (row["file"], row.get("line"), row["verdict"]) == ("-", None, "valid")

        *rows, last = self.rows(typed=lines_of([valid_document()] * 2))
        assert [row["line"] for row in rows] == [1, 2]
        assert last["summary"]["file_faults"] == 0
        assert run("verify", typed=f"{VALID}\n{VALID}\n").exit_code == 1
        assert run("verify", typed="").exit_code == 1

    def test_a_bad_first_line_does_not_hide_that_there_are_more(self) -> None:
        text = f'{{"format": \n{lines_of([valid_document()])}'

        *rows, _ = self.rows("-", typed=text)

        assert [row["verdict"] for row in rows] == ["invalid", "valid", "invalid"]

    def test_a_folder_is_read_whole_and_in_order(self) -> None:
        for name in ("b.json", "a/z.JSON", "a/.hidden.jsonl", "c.json/d.json", "notes.txt"):
            self.write(f"games/{name}", lines_of([valid_document()]))

        rows = self.rows("games")[:-1]

        assert [row["file"] for row in rows] == [
            "games/b.json",
            "games/a/.hidden.jsonl",
            "games/a/z.JSON",
            "games/c.json/d.json",
        ]

    def test_links_are_followed_but_never_in_circles(self) -> None:
        self.write("elsewhere/a.json", VALID)
        self.write("games/b.json", VALID)
        Path("games/more").symlink_to(Path("elsewhere").resolve())
        Path("elsewhere/back").symlink_to(Path("games").resolve())

        rows = self.rows("games")[:-1]

        assert sorted(row["file"] for row in rows) == ["games/b.json", "games/more/a.json"]

    def test_what_cannot_be_read_is_told_and_the_rest_is_verified(self) -> None:
        self.write("games/a.json", VALID)
        self.write("games/c.json", bytes(range(256)))
        Path("games/broken.json").symlink_to("nowhere")
        os.mkfifo("games/pipe.json")
        listening = socket.socket(socket.AF_UNIX)
        listening.bind("games/socket.ndjson")
        listening.close()

        told = run("verify", "games")
        faults = {
            row["file"]: (row["problem"]["code"], row["problem"]["detail"])
            for row in self.rows("games")[:-1]
            if row["verdict"] == "invalid"
        }

        assert told.exit_code == 1
        assert (
            "1 valid, 1 invalid, 0 incomplete, 0 unsupported, 3 unreadable or truncated."
            in told.stdout
        )
        assert faults == {
            "games/broken.json": ("unreadable", "No such file or directory"),
            "games/c.json": ("malformed", "not UTF-8 at byte 128"),
            "games/pipe.json": ("unreadable", "not a plain file"),
            "games/socket.ndjson": ("unreadable", "not a plain file"),
        }

    def test_a_socket_that_is_named_cannot_be_read(self) -> None:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind("socket")
        listening.close()

        row, _ = self.rows("socket")

        assert row["problem"]["code"] == "unreadable"

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can run it as somebody else")
    def test_files_and_folders_of_others_are_told_as_unreadable(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            folder.chmod(0o755)
            for file in ("a.json", "closed/b.json", "c.json"):
                self.write(str(folder / file), VALID)
            (folder / "closed").chmod(0o700)
            (folder / "c.json").chmod(0o600)

            code = (
                "import os, sys\n"
                "from service.cli import main\n"
                "os.setgroups([])\n"
                "os.setgid(65534)\n"
                "os.setuid(65534)\n"
                "main()"
            )
            by_folder, by_name = (
                subprocess.run(
                    [sys.executable, "-c", code, "verify", "--json", path],
                    capture_output=True,
                    check=False,
                )
                for path in (folder, folder / "c.json")
            )

        rows = list(map(json.loads, by_folder.stdout.splitlines()))
        assert by_folder.returncode == by_name.returncode == 1
        assert [(Path(row["file"]).name, row["verdict"]) for row in rows[:-1]] == [
            ("a.json", "valid"),
            ("c.json", "invalid"),
            ("closed", "invalid"),
        ]
        assert rows[1]["problem"]["detail"] == rows[2]["problem"]["detail"] == "Permission denied"
        assert b"Permission denied" in by_name.stdout

    def test_a_pipe_that_is_named_is_read(self) -> None:
        os.mkfifo("pipe")
        writing = threading.Thread(target=Path("pipe").write_text, args=(VALID,))
        writing.start()

        row, _ = self.rows("pipe")
        writing.join()

        assert row["verdict"] == "valid"

    @pytest.mark.parametrize("arguments", [["nowhere.json"], ["empty"], ["empty", "a.json"]])
    def test_nothing_to_verify_is_a_usage_error(self, arguments: list[str]) -> None:
        self.write("a.json", VALID)
        self.write("empty/notes.txt", VALID)

        assert run("verify", *arguments).exit_code == 2

    @pytest.mark.parametrize("jobs", ["0", "-1", "two"])
    def test_there_is_no_fewer_than_one_job(self, jobs: str) -> None:
        assert run("verify", "--jobs", jobs, self.write("a.json", VALID)).exit_code == 2

    def test_nothing_in_a_document_or_a_name_commands_the_terminal(self) -> None:
        document = {**json.loads(VALID), "\x1b[2J\u202e": 1}
        name = os.fsdecode(b"\x1b]0;\xff.json")
        Path(name).write_text(text_of(document), encoding="ascii")

        told = run("verify", name)
        row = self.rows(name)[0]

        assert told.exit_code == 1
        assert ESCAPE not in told.stdout
        assert "\u202e" not in told.stdout
        assert r"\x1b]0;\xff.json" in told.stdout
        assert row["file"] == "\x1b]0;\\xff.json"

    def test_a_terminal_without_these_letters_shows_them_as_escapes(self) -> None:
        self.write("partie-é-♥.json", VALID)

        done = program("verify", ".", PYTHONIOENCODING="ascii")

        assert done.returncode == 0
        assert rb"partie-\xe9-\u2665.json" in done.stdout

    def test_output_may_be_cut_short_by_its_reader(self) -> None:
        file = self.write("games.ndjson", lines_of([valid_document()] * 1000))

        shell = f"{shlex.quote(str(PROGRAM))} verify {file} | head -2"
        done = subprocess.run(["/bin/sh", "-c", shell], capture_output=True, check=True)

        assert done.stdout.splitlines()[1].endswith(b"games.ndjson:1")
        assert done.stderr == b""

    def test_ctrl_c_stops_verifying_without_counts(self) -> None:
        with subprocess.Popen(
            [PROGRAM, "verify", "--json"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdin
            assert process.stdout
            process.stdin.write(f"{VALID}\n{VALID}\n{VALID}\n".encode())
            process.stdin.flush()
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            told, errors = process.communicate(timeout=30)

        assert process.returncode == 130
        assert b"summary" not in told
        assert re.fullmatch(rb"\nStopped after [0-9] replays?\.\n", errors)


class TestJobs:
    def test_several_processes_say_the_same_in_the_same_order(self, tmp_path: Path) -> None:
        texts = [VALID, WRONG_SCORE, UNFINISHED, "{", UNSUPPORTED] * 60
        lines = [*texts, '{"end": true, "count": 300}', VALID]
        (tmp_path / "a.ndjson").write_text("\n".join(lines), encoding="ascii")
        (tmp_path / "b.json").write_text(VALID, encoding="ascii")
        Path(tmp_path / "c.json").symlink_to("nowhere")

        outputs = [
            program("verify", "--json", "--jobs", jobs, tmp_path).stdout.splitlines()
            for jobs in ("1", "3")
        ]

        assert len(outputs[0]) == 305
        assert outputs[0][:-1] == outputs[1][:-1]

    def test_others_join_in_where_there_are_many_documents(self, tmp_path: Path) -> None:
        file = tmp_path / "games.ndjson"
        documents = [valid_document()] * (MANY + 150)
        file.write_text(lines_of(documents), encoding="ascii")

        tally = Tally()
        for judgement in judge(find(str(file))):
            tally.add(judgement)

        assert tally.verdicts["valid"] == MANY + 150
        assert tally.exit_code == 0

    @pytest.mark.skipif(sys.platform != "linux", reason="children are listed in /proc")
    def test_a_killed_process_is_told_and_never_waited_for(self) -> None:
        with subprocess.Popen(
            [PROGRAM, "verify", "--jobs", "2"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdin
            process.stdin.write(f"{VALID}\n".encode() * 350)
            process.stdin.flush()
            wait_until(lambda: len(judging_children(process.pid)) == 2)
            for child in judging_children(process.pid):
                os.kill(child, signal.SIGKILL)
            _, errors = process.communicate(timeout=30)

        assert process.returncode == 1
        assert b"a process that verified was killed" in errors


def test_what_an_encoding_lacks_or_a_terminal_obeys_is_escaped() -> None:
    assert printable("7♥ é", "utf-8") == "7♥ é"
    assert printable("7♥ é", "latin-1") == "7\\u2665 é"
    assert printable("\x1b[2J\udcff\n", "utf-8") == "\\x1b[2J\\udcff\\n"
