"""The docs page as a person has it before them, in a headless Chromium: `make browser`.

Not collected by `make test`, which needs nothing that pip does not install.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server import PATIENCE, environment, running

from service.store.database import Database
from service.store.embedded import EmbeddedPostgres

Json = dict[str, Any]

SCRIPT = Path(__file__).parent / "browser/docs.mjs"


@pytest.fixture(scope="module")
def seen(
    postgres: EmbeddedPostgres, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Json]:
    """What the script saw."""
    chromium = shutil.which("chromium")
    assert chromium
    assert database
    with running(postgres.url) as service:
        service.register("Ada")
        url = f"http://127.0.0.1:{service.port}"
        node = Path(sys.executable).parent / "node"
        folder = tmp_path_factory.mktemp("chromium")
        done = subprocess.run(
            [node, SCRIPT, chromium, url, str(service.token), folder],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=6 * PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        yield {"url": url, **json.loads(done.stdout)}


def test_it_refuses_without_a_token_and_answers_with_ones_own(seen: Json) -> None:
    assert seen["refused"]["status"] == "401"
    assert "token-missing" in seen["refused"]["body"]
    assert seen["me"]["status"] == "200"
    assert '"Ada"' in seen["me"]["body"]


def test_the_proposed_body_makes_a_game(seen: Json) -> None:
    assert seen["made"]["status"] == "201"
    assert '"legal_moves"' in seen["made"]["body"]


def test_it_asks_no_other_host_keeps_no_cookie_and_nothing_is_blocked(seen: Json) -> None:
    asked = [url for url in seen["asked"] if not url.startswith(("data:", "blob:"))]
    complaints = [text for text in seen["complaints"] if "401" not in text]

    assert len(asked) > 5
    assert all(url.startswith(f"{seen['url']}/") for url in asked)
    assert seen["cookies"] == ""
    assert complaints == []
