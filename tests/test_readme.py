"""The README's first game, run as it stands."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from server import running, streaming

from service.store.database import Database
from service.store.embedded import EmbeddedPostgres

README = Path(__file__).parents[1] / "README.md"
COMMANDS = 5


@pytest.mark.skipif(shutil.which("curl") is None, reason="the README's commands are curl's")
def test_the_five_commands_of_the_readme_play_a_game(
    postgres: EmbeddedPostgres, database: Database, tmp_path: Path
) -> None:
    found = re.search(r"```sh\n(.*?)```", README.read_text(), re.DOTALL)
    assert found
    commands = found[1].strip().splitlines()
    program = tmp_path / "rendezvous"
    program.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'from service.cli import main; main()' \"$@\"\n"
    )
    program.chmod(0o755)

    assert database.now()
    with running(postgres.url) as service:
        script = "\n".join(commands).replace("localhost:8000", f"127.0.0.1:{service.port}")
        done = subprocess.run(
            ["sh", "-ec", script.replace(".venv/bin/rendezvous", str(program))],  # noqa: S607
            env=os.environ,
            capture_output=True,
            text=True,
            check=False,
        )

    assert len(commands) == COMMANDS
    assert done.returncode == 0, done.stderr
    assert '"move":"r8:upper-H"' in done.stdout
    assert '"status":"resigned"' in done.stdout
    assert "1 valid, 0 invalid" in done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("curl") is None, reason="the README's command is curl's")
def test_the_game_of_the_readme_can_be_watched(
    postgres: EmbeddedPostgres, database: Database
) -> None:
    found = re.search(r"^\$ (curl -N .*)$", README.read_text(), re.MULTILINE)
    assert found
    assert database.now()

    with streaming(postgres.url) as streams, running(postgres.url) as service:
        service.register()
        game = service.create()
        over = service.ask("POST", f"{game['links']['self']}/resign", {"ply": 0})
        script = found[1].replace("localhost:8001", f"127.0.0.1:{streams.port}")
        done = subprocess.run(
            ["sh", "-ec", script],  # noqa: S607
            env={**os.environ, "TOKEN": str(service.token), "GAME": game["links"]["self"]},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    assert over.status == 200
    assert done.returncode == 0, done.stderr
    events = re.findall(r"^id: 1-[0-9a-f]{16}\nevent: (\w+)\ndata: {", done.stdout, re.MULTILINE)
    assert events == ["game", "end"]


def test_the_readme_quotes_the_bench() -> None:
    found = re.search(r"<!-- bench -->\n(.*?)\n<!-- /bench -->", README.read_text(), re.DOTALL)

    assert found
    assert found[1].startswith("| what | target |")
    assert found[1] in (README.parent / "docs/bench.md").read_text()
