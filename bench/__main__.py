"""`python -m bench`: measure, print, and write docs/bench.md."""

from typing import Any, Final

import click
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench import bulk, engine, report, start, storage, streams, tournaments, web
from bench.report import Results

PARTS: Final = ("engine", "http", "streams", "storage", "bulk", "start", "tournaments")


def _parts(_: click.Context, __: click.Parameter, given: str | None) -> tuple[str, ...]:
    if given is None:
        return PARTS
    names = tuple(given.split(","))
    if unknown := set(names) - set(PARTS):
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    return names


@click.command()
@click.option("--quick", is_flag=True, help="Only see that it runs: the numbers mean little.")
@click.option(
    "--only",
    "parts",
    callback=_parts,
    metavar=",".join(PARTS),
    help="Measure only these parts, separated by commas.",
)
def main(parts: tuple[str, ...], *, quick: bool) -> None:
    """Measure speed and size, as ratios within one run where other programs may disturb.

    Prints the report. A whole run, neither quick nor of some parts only, also writes it to
    docs/bench.md.
    """
    found = _measure(parts, quick=quick)
    page = report.render(found)
    console = Console()
    if console.is_terminal:
        console.print(Markdown(page))
    else:
        click.echo(page)
    if set(parts) == set(PARTS) and not quick:
        report.PAGE.write_text(page, encoding="utf-8")
        click.echo(f"written to {report.PAGE}")


def _measure(parts: tuple[str, ...], *, quick: bool) -> Results:
    rounds, seconds = (1, 1.0) if quick else (11, 1.5)
    plans: dict[str, tuple[int, Any]] = {
        "engine": (
            2 if quick else 15,
            lambda step: engine.measure(30 if quick else 300, 2 if quick else 15, step),
        ),
        "http": (web.steps(rounds), lambda step: web.measure(rounds, seconds, step)),
        "streams": (
            rounds,
            lambda step: streams.measure(rounds, seconds, 100 if quick else streams.WATCHERS, step),
        ),
        "storage": (
            storage.steps(),
            lambda step: storage.measure(*((40, 400) if quick else (2000, 100_000)), step),
        ),
        "bulk": (bulk.steps(), lambda step: bulk.measure(500 if quick else 100_000, step)),
        "tournaments": (
            tournaments.steps(1 if quick else 3),
            lambda step: tournaments.measure(
                *((40, 2, 5, 1, 0.5) if quick else (10_000, 10, 600, 3, 4.0)), step
            ),
        ),
        "start": (2 * min(3, rounds), lambda step: start.measure(min(3, rounds), step)),
    }
    # Drawn only between measurements: a thread that draws would disturb them.
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    found: dict[str, Any] = {}
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False) as progress:
        for name in parts:
            steps, act = plans[name]
            task = progress.add_task(name, total=steps)
            progress.refresh()

            def step(task: Any = task) -> None:
                progress.update(task, advance=1, refresh=True)

            found[name] = act(step)
    return Results(**found)


if __name__ == "__main__":
    main(prog_name="python -m bench")
