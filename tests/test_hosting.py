"""The page for hosts: a whole evening from the command line, each command run as it stands."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from server import running, working

from service.store.database import Database
from service.store.embedded import EmbeddedPostgres
from service.tournaments.model import KINDS

PAGE = Path(__file__).parents[1] / "docs/hosting.md"
STEP = re.compile(r"```sh\n(.*?)```|<!-- ([0-9]+) minutes pass -->", re.DOTALL)

LATER = """\
import sys

from hall import Host

from service.store.database import Database

minutes, path = sys.argv[1:]
Host(None, None, database=Database({url!r})).elapse({{"id": path[-36:]}}, 60 * int(minutes))
"""


def program(file: Path, *command: str) -> None:
    """Write a program that runs a command."""
    file.write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n')
    file.chmod(0o755)


def script() -> str:
    """Return all commands of the page, and between them `later`, by which time passes."""
    found = STEP.findall(PAGE.read_text())
    assert len(found) > 10
    return "\n".join(commands or f'later {minutes} "$T"' for commands, minutes in found)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page's commands are curl's")
def test_the_evening_of_the_page_is_played_from_the_token_to_the_end(
    postgres: EmbeddedPostgres, database: Database, tmp_path: Path
) -> None:
    run = (sys.executable, "-P", "-c", "'from service.cli import main; main()'")
    program(tmp_path / "rendezvous", *run)
    program(tmp_path / "python", sys.executable)
    (tmp_path / "later.py").write_text(LATER.format(url=postgres.url))
    program(tmp_path / "later", sys.executable, str(tmp_path / "later.py"))
    tests, source = Path(__file__).parent, Path(__file__).parents[1]

    assert database.now()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        running(postgres.url, WEBHOOK_PRIVATE="allow") as service,
        working(postgres.url, WEBHOOK_PRIVATE="allow"),
    ):
        commands = script().replace("localhost:8000", f"127.0.0.1:{service.port}")
        commands = commands.replace("8010", str(port))
        done = subprocess.run(
            ["sh", "-ec", commands.replace(".venv/bin/", "")],  # noqa: S607
            cwd=tmp_path,
            env={
                **os.environ,
                "DATABASE_URL": postgres.url,
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "PYTHONPATH": f"{source}:{tests}",
            },
            capture_output=True,
            text=True,
            check=False,
        )

    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert '"type":"/problems/' not in told
    assert '"state":"final"' in told
    assert re.search("^valid, [0-9]+ replays$", told, re.MULTILINE)
    assert re.search("^[0-9]+ tournament.result ", told, re.MULTILINE)


def test_the_page_tells_every_kind_of_event() -> None:
    assert set(KINDS) <= set(re.findall("`([a-z-]+)`", PAGE.read_text()))
