"""The command line, ``rendezvous``: deals, a game at the terminal, and a verifier of replays.

Here stand options, exit codes and the way things are told. A usage error ends with 2, an interrupt
with 130. The commands of the server are known by name only until one of them is called, so that
this module needs nothing beyond the base installation.
"""

import io
import json
import os
import secrets
import shlex
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from service import __version__
from service.drawing import Screen, printable
from service.engine import (
    DEAL_SPECS,
    DEFAULT_RULESET,
    RULESETS,
    Layout,
    Position,
    canonical_seed,
    describe,
    table,
)
from service.engine import deal as deal_cards
from service.engine.cards import render_cards
from service.engine.deals import DEFAULT_SPEC
from service.engine.errors import BadSeedError
from service.engine.verify import SignatureCheck
from service.replay_files import (
    STANDARD_INPUT,
    JudgeKilledError,
    Judgement,
    Source,
    Tally,
    find,
    judge,
)
from service.results_files import Outcome
from service.results_files import judge as judge_results
from service.terminal import BAD_PATH, Record, TerminalGame, load, reason

SERVER_COMMANDS: Final[Mapping[str, str]] = {
    "serve": "Run the service.",
    "migrate": "Bring the database to this version's schema.",
    "audit": "Check every stored game against its own log.",
    "tidy": "Delete what nobody needs any more.",
    "token": "Give, list and revoke players' tokens.",
    "keys": "Make, rotate and show the keys that sign results.",
    "backup": "Write a snapshot of the database to a file.",
    "restore": "Fill an empty database from a snapshot.",
}
"""The server's commands with their one line of help, in the order of listing."""

_SERVER_MODULES: Final = {"serve": "service.supervisor"}
_SERVER_MODULE: Final = "service.server_cli"
"""The module of those that the map above does not name."""

_NEEDS_SERVER: Final = "needs the server: pip install 'royal-rendezvous[server]'"
_NEEDS_VERIFY: Final = "needs joserfc: pip install 'royal-rendezvous[verify]'"
_SEED_LETTERS: Final = "23456789abcdefghjkmnpqrstuvwxyz"
_SEED_LENGTH: Final = 8
_NUMBERED_DEALS: Final = 10**9
_READABLE: Final = 100
_PATIENCE: Final = 0.5
"""Seconds after which progress is shown."""


class MissingServerError(click.ClickException):
    """Something is asked for that the base installation does not have."""

    exit_code = 2


class ServerCommand(click.Command):
    """A command that is loaded when it is called, but listed without."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Return the context of the command itself, which then takes the place of this one."""
        return self._load().make_context(info_name, args, parent, **extra)

    def _load(self) -> click.Command:
        """Return the command itself.

        Raises:
            MissingServerError: Some package of the server is not installed.
        """
        try:
            module = import_module(_SERVER_MODULES.get(str(self.name), _SERVER_MODULE))
        except ModuleNotFoundError as error:
            missing = str(error.name)
            if missing.partition(".")[0] == __name__.partition(".")[0]:
                raise
            raise MissingServerError(f"{self.name} {_NEEDS_SERVER} (no {missing} here)") from error
        commands: dict[str, click.Command] = module.COMMANDS
        return commands[str(self.name)]


class CommandGroup(click.Group):
    """The commands in the order of their definition, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the commands."""
        return list(self.commands)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rendezvous", message="%(prog)s %(version)s")
def main() -> None:
    """Royal Rendezvous and its family: deals, games and replays that anyone can verify."""


_ruleset_option = click.option(
    "--ruleset",
    type=click.Choice(list(RULESETS)),
    metavar="NAME",
    default=DEFAULT_RULESET,
    show_default=True,
    help="What is played; `rendezvous rules` lists the choices.",
)
_spec_option = click.option(
    "--spec",
    type=click.Choice(DEAL_SPECS),
    default=DEFAULT_SPEC,
    show_default=True,
    help="How the seed gives the cards: deal-1 is ours, pysol-1 gives PySolFC's numbered deals.",
)
_ascii_option = click.option(
    "--ascii",
    "ascii_only",
    is_flag=True,
    help="Write suits as letters: 7H for the seven of hearts.",
)


def _seed(spec: str, given: str | None, hint: str) -> str:
    """Return the canonical form of the seed that was given, else a new short one.

    Raises:
        click.BadParameter: It is not a seed of this spec.
    """
    if given is None:
        if spec != DEFAULT_SPEC:
            return str(secrets.randbelow(_NUMBERED_DEALS) + 1)
        return "".join(secrets.choice(_SEED_LETTERS) for _ in range(_SEED_LENGTH))
    try:
        return canonical_seed(spec, given)
    except BadSeedError as error:
        raise click.BadParameter(f"{error}.", param_hint=hint) from error


@main.command()
@click.argument("seed", required=False)
@_ruleset_option
@_spec_option
@click.option("--stock", is_flag=True, help="Show the cards of the stock too, the next one first.")
@click.option("--json", "as_json", is_flag=True, help="Write the cards as JSON, stock included.")
@_ascii_option
def deal(
    *, seed: str | None, ruleset: str, spec: str, stock: bool, as_json: bool, ascii_only: bool
) -> None:
    """Show the layout that SEED gives.

    Without SEED one is drawn: 8 letters and digits for deal-1, a number for pysol-1. It is short
    for people to pass on; for a contest let the service seal a long one.
    """
    seed = _seed(spec, seed, "'SEED'")
    layout = deal_cards(spec, ruleset, seed)
    position = Position(table(ruleset), layout)
    if as_json:
        facts = _deal_as_json(ruleset, spec, seed, layout, position)
        click.echo(json.dumps(facts))
        return
    screen = Screen(ascii_only=ascii_only)
    screen.title(ruleset, f"{spec} {seed}")
    screen.say(screen.position(position))
    if stock:
        screen.say()
        screen.say("stock, the next card first", style="dim")
        screen.say(screen.stock(position))
    screen.say()
    again = shlex.join(["--ruleset", ruleset, "--spec", spec, *_escaped(seed), seed])
    screen.say(f"Again: rendezvous deal {again}", style="dim")


def _escaped(seed: str) -> list[str]:
    return ["--"] if seed.startswith("-") else []


def _deal_as_json(
    ruleset: str, spec: str, seed: str, layout: Layout, position: Position
) -> dict[str, Any]:
    columns = [render_cards(column) for column in layout.columns]
    return {
        "ruleset": ruleset,
        "deal": {"spec": spec, "seed": seed},
        "reserve": render_cards(layout.reserve),
        **({"columns": columns} if columns else {}),
        "stock": render_cards(layout.stock),
        "position": position.render(stock=True),
    }


@main.command()
@click.argument("ruleset", required=False, type=click.Choice(list(RULESETS)), metavar="[RULESET]")
def rules(*, ruleset: str | None) -> None:
    """Tell the rules of RULESET; without one, list the rulesets."""
    screen = Screen()
    if ruleset is not None:
        screen.title(ruleset)
        screen.say(_two_columns(describe(ruleset).items(), screen.console.width))
        return
    games = dict.fromkeys(row.game for row in RULESETS.values())
    longest = max(map(len, RULESETS))
    for game in games:
        screen.say(game, style="bold")
        rows = [
            (
                name.ljust(longest),
                row.edition + (" (the default)" if name == DEFAULT_RULESET else ""),
            )
            for name, row in RULESETS.items()
            if row.game == game
        ]
        screen.say(_two_columns(rows, screen.console.width, indent=2))


def _two_columns(rows: Iterable[tuple[str, str]], width: int, *, indent: int = 0) -> Text:
    """Return names and texts side by side, the texts wrapped at a width that reads well."""
    rows = list(rows)
    start = indent + max(len(name) for name, _ in rows) + 2
    lines = []
    for name, text in rows:
        first, *others = textwrap.wrap(text, max(min(width, _READABLE) - start, 20))
        lines.append(Text.assemble((f"{'':{indent}}{name}".ljust(start), "cyan"), first))
        lines += [Text(" " * start + other) for other in others]
    return Text("\n").join(lines)


@main.command()
@_ruleset_option
@click.option("--seed", help="The deal's seed.  [default: a new one]")
@_spec_option
@click.option(
    "--save",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the replay in this new file, move by move.",
)
@click.option(
    "--resume",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Go on with a game that was saved. It is kept there again, unless --save names a file.",
)
@_ascii_option
@click.pass_context
def play(
    ctx: click.Context,
    *,
    ruleset: str,
    seed: str | None,
    spec: str,
    file: Path | None,
    resume: Path | None,
    ascii_only: bool,
) -> None:
    """Play a game here, with moves taken back as you like."""
    if file is not None and file != resume:
        _refuse_to_replace(file)
    if resume is None:
        record = Record.begin(ruleset, spec, _seed(spec, seed, "'--seed'"))
    else:
        for name in ("ruleset", "seed", "spec"):
            if ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
                raise click.UsageError(f"--{name} and --resume exclude each other.")
        record = _resume(resume)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    screen = Screen(ascii_only=ascii_only)
    ctx.exit(TerminalGame(record, screen, sys.stdin, file=file or resume).play())


def _refuse_to_replace(file: Path) -> None:
    name = click.format_filename(file)
    try:
        there, folder = file.exists(), file.resolve().parent.is_dir()
    except BAD_PATH as error:
        raise click.BadParameter(f"{name}: {reason(error)}.", param_hint="'--save'") from error
    if there:
        raise click.BadParameter(f"{name} is there already.", param_hint="'--save'")
    if not folder:
        raise click.BadParameter(f"there is no folder for {name}.", param_hint="'--save'")


def _resume(file: Path) -> Record:
    try:
        return Record.resume(load(file))
    except BAD_PATH as error:
        told = f"{click.format_filename(file)}: {reason(error)}."
        raise click.BadParameter(told, param_hint="'--resume'") from error


_PATH: Final = click.Path(exists=True, readable=False, allow_dash=True)
_jobs_option: Final = click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Processes that verify.  [default: one, and of many replays all processors]",
)


@main.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=_PATH)
@click.option("--json", "as_json", is_flag=True, help="Write a line of JSON a document.")
@click.option("--quiet", is_flag=True, help="Leave out what is valid.")
@_jobs_option
@click.option(
    "--keys",
    "keys_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Public keys, a JWK set: every finished game must be signed by one of them.",
)
@click.pass_context
def verify(
    ctx: click.Context,
    *,
    paths: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    jobs: int | None,
    keys_file: Path | None,
) -> None:
    r"""Verify recorded games by dealing their cards and playing their moves.

    PATH is a replay document, a file with one a line (.ndjson, .jsonl), a folder of such files, or
    - for standard input, which is read too when there is no PATH. Files with one document a line
    end with a line {"end": true, "count": N}, so that a part is not taken for the whole.

    \b
    Exit codes: 0 all valid
                1 something invalid, truncated or unreadable
                2 wrong usage, or nothing to verify
                3 nothing of that, but something unfinished or not supported
    """
    if not paths and sys.stdin.isatty():
        raise click.UsageError("Give a file, a folder, or - for standard input.")
    sources = []
    for path in paths or (STANDARD_INPUT,):
        found = list(find(path))
        if not found:
            raise click.UsageError(
                f"No replays in {click.format_filename(path)}: "
                "their names end in .json, .ndjson or .jsonl."
            )
        sources += found
    check = None if keys_file is None else _checker(keys_file)
    tally = Tally(files=len(sources))
    report = _JsonReport() if as_json else _Report(quiet=quiet)
    start = time.monotonic()
    with _watched(sources, wanted=quiet) as bar, closing(judge(sources, jobs, check)) as judgements:
        for judgement in judgements:
            tally.add(judgement)
            bar.advance(judgement.size, tally.documents, tally.bad)
            if not (quiet and judgement.verdict.verdict == "valid"):
                bar.give_way()
                report.row(judgement)
    report.end(tally, time.monotonic() - start)
    ctx.exit(tally.exit_code)


def _checker(file: Path) -> SignatureCheck:
    """Return what checks signatures by the keys of a file.

    Raises:
        MissingServerError: The package that checks them is not installed.
        click.BadParameter: The file holds no such keys.
    """
    try:
        signatures = import_module("service.signatures")
    except ModuleNotFoundError as error:
        told = f"--keys {_NEEDS_VERIFY} (no {error.name} here)"
        raise MissingServerError(told) from error
    try:
        check: SignatureCheck = signatures.Checker(signatures.load(file), required=True)
    except signatures.KeysError as error:
        raise click.BadParameter(f"{error}.", param_hint="'--keys'") from error
    return check


@main.group()
def results() -> None:
    """Verify what tournaments came to."""


_FILE: Final = click.Path(exists=True, dir_okay=False, readable=False)


@results.command("verify")
@click.argument("results_file", metavar="RESULTS", type=_FILE)
@click.argument("paths", nargs=-1, metavar="[REPLAYS]...", type=_PATH)
@click.option("--json", "as_json", is_flag=True, help="Write the verdict as JSON.")
@_jobs_option
@click.option(
    "--keys",
    "keys_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Public keys, a JWK set: results and replays must be signed by one of them.",
)
@click.pass_context
def verify_results(
    ctx: click.Context,
    *,
    results_file: str,
    paths: tuple[str, ...],
    as_json: bool,
    jobs: int | None,
    keys_file: Path | None,
) -> None:
    r"""Verify a tournament's final results from nothing but files.

    RESULTS is what the service gives of them, as JSON or NDJSON. REPLAYS are the tournament's
    replays: a file with one a line (.ndjson, .jsonl), a replay document, a folder of these, or -
    for standard input. Every deal is opened, every game played again, and the standings are
    computed anew and compared.

    \b
    Exit codes: 0 valid
                1 invalid, truncated or unreadable
                2 wrong usage
                3 no replays were given, or something is not supported
    """
    check = None if keys_file is None else _checker(keys_file)
    sources = [source for path in paths for source in find(path)]
    with _watched(sources, wanted=True) as bar:
        outcome = judge_results(results_file, sources, check, jobs, bar.advance)
    if as_json:
        told = {**outcome.verdict.as_json(), "replays": outcome.replays}
        faults = [
            {"file": _readable(file), **({"line": line} if line else {}), **problem.as_json()}
            for file, line, problem in outcome.faults
        ]
        click.echo(json.dumps({**told, "faults": faults}))
    else:
        _tell_results(outcome)
    ctx.exit({"valid": 0, "invalid": 1}.get(outcome.verdict.verdict, 3))


def _tell_results(outcome: Outcome) -> None:
    """Write the verdict on results for people."""
    screen = Screen()
    encoding = screen.console.encoding
    verdict = outcome.verdict
    for name, (state, why) in verdict.levels.items():
        screen.say(f"{name:<11}{state:<9}{printable(why, encoding)}".rstrip())
    for file, line, problem in outcome.faults:
        place = _readable(file) + ("" if line is None else f":{line}")
        screen.say(printable(f"{place}: {problem.detail}", encoding))
    if verdict.problem is not None:
        pointer = f"{verdict.problem.pointer}: " if verdict.problem.pointer else ""
        screen.say(printable(f"{pointer}{verdict.problem.detail}", encoding))
    screen.say(f"{verdict.verdict}, {_counted(outcome.replays, 'replay')}", style="bold")


@contextmanager
def _watched(sources: Sequence[Source], *, wanted: bool) -> Iterator["_Bar"]:
    """Give what shows how far the verifying of replays is; end the program if it is cut short."""
    bar = _Bar(sum(source.size for source in sources), wanted=wanted)
    try:
        with bar:
            yield bar
    except KeyboardInterrupt:
        click.echo(f"\nStopped after {_counted(bar.documents, 'replay')}.", err=True)
        click.get_current_context().exit(130)
    except JudgeKilledError as error:
        raise click.ClickException(f"stopped: {error}") from error


class _Bar:
    """Progress on standard error, where someone watches it and nothing else is written there."""

    def __init__(self, size: int, *, wanted: bool) -> None:
        """Take the bytes to come, 0 if unknown; ``wanted`` where few rows scroll by."""
        console = Console(stderr=True)
        self._shares_terminal = sys.stdout.isatty()
        self._shown = console.is_terminal and (wanted or not self._shares_terminal)
        self._progress = Progress(
            TextColumn("{task.fields[told]}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("", total=size or None, told="")
        self._done = 0
        self.documents = 0
        self._next = time.monotonic() + _PATIENCE

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop()

    def advance(self, size: int, documents: int, bad: int) -> None:
        """Count a replay's bytes; now and then show how far it is, and these counts."""
        self._done += size + 1
        self.documents = documents
        if self._shown and time.monotonic() > self._next:
            self._next = time.monotonic() + 0.1
            told = f"{documents:,} verified, {bad:,} bad"
            self._progress.update(self._task, completed=self._done, told=told)
            self._progress.start()

    def give_way(self) -> None:
        """Leave the line to what is written next."""
        if self._shares_terminal:
            self._stop()

    def _stop(self) -> None:
        if self._progress.live.is_started:
            self._progress.stop()


class _JsonReport:
    """Judgements as lines of JSON, then one with the counts."""

    def row(self, judgement: Judgement) -> None:
        """Write a judgement."""
        line = {} if judgement.line is None else {"line": judgement.line}
        verdict = judgement.verdict.as_json()
        click.echo(json.dumps({"file": _readable(judgement.file), **line, **verdict}))

    def end(self, tally: Tally, seconds: float) -> None:
        """Write the counts."""
        click.echo(json.dumps({"summary": {**tally.as_json(), "seconds": round(seconds, 3)}}))


class _Report:
    """Judgements as a table for people, then a sentence with the counts."""

    _STYLES: Final = {"valid": "green", "incomplete": "yellow", "unsupported": "yellow"}

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self._screen = Screen()
        self._begun = False
        self._drawn: dict[str, str] = {}

    def row(self, judgement: Judgement) -> None:
        """Write a judgement, and on a line of its own why it is not ``valid``."""
        if not self._begun:
            self._begun = True
            self._screen.say(f"{'verdict':<13}{'level':<11}{'result':<14}replay", style="dim")
        verdict, problem = judgement.verdict, judgement.verdict.problem
        word = problem.code if problem and judgement.of_file else verdict.verdict
        level = problem.level if problem else ""
        facts = verdict.result
        result = f"{facts['status']} {facts['score']}" if facts else ""
        line = "" if judgement.line is None else f":{judgement.line}"
        encoding = self._screen.console.encoding
        place = printable(_readable(judgement.file) + line, encoding)
        # Written past the screen's layout, which takes longer than verifying.
        click.echo(f"{self._word(word)}{level:<11}{result:<14}{place}", color=True)
        if verdict.verdict != "valid":
            click.echo(f"  {printable(_why(judgement), encoding)}")

    def _word(self, word: str) -> str:
        if word not in self._drawn:
            with self._screen.console.capture() as capture:
                self._screen.say(Text(f"{word:<13}", self._STYLES.get(word, "bold red")), end="")
            self._drawn[word] = capture.get()
        return self._drawn[word]

    def end(self, tally: Tally, seconds: float) -> None:
        """Write the counts, unless quiet is wanted."""
        if self.quiet:
            return
        counts = [f"{number:,} {verdict}" for verdict, number in tally.verdicts.items()]
        if tally.file_faults:
            counts.append(f"{tally.file_faults:,} unreadable or truncated")
        replays, files = _counted(tally.documents, "replay"), _counted(tally.files, "file")
        told = f"{replays} in {files}, {seconds:.1f} s"
        if seconds >= 1:
            told += f", {round(tally.documents / seconds):,} a second"
        self._screen.say()
        self._screen.say(f"{', '.join(counts)}.", style="bold")
        self._screen.say(f"{told}.", style="dim")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _readable(name: str) -> str:
    """Return a file's name with bytes that are not UTF-8 as escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _why(judgement: Judgement) -> str:
    verdict = judgement.verdict
    problem = verdict.problem
    if problem is None:
        return verdict.levels["deal"][1] or "the game is not finished"
    if problem.ply is not None:
        return f"entry {problem.ply}: {problem.detail}"
    return f"{problem.pointer}: {problem.detail}" if problem.pointer else problem.detail


for _name, _help in SERVER_COMMANDS.items():
    main.add_command(ServerCommand(_name, help=_help))
