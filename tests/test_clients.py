"""Clients: the examples, and what generators make of openapi.yaml, against a live service."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from client import CONTRACT, published
from lossy import lossy
from server import PATIENCE, Service, environment, running, serve

from service.api.examples import operations
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / "examples/python"
TYPESCRIPT = ROOT / "examples/typescript"
BIN = Path(sys.executable).parent

ENDED = re.compile(r"^([-0-9a-f]{36}) (won|lost) score (\d+) valid$", re.MULTILINE)
PLY = re.compile(r"^ply (\d+) score", re.MULTILINE)


@pytest.fixture(scope="module")
def service(postgres: EmbeddedPostgres, database: Database) -> Iterator[Service]:
    """A live service."""
    assert database
    with running(postgres.url) as service:
        yield service


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Return what a program says, which must end well."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=variables_of(variables),
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def variables_of(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program: Node and npm are those of this environment's wheel."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return environment(PATH=path, npm_config_update_notifier="false", **variables)


def plies(said: str) -> list[int]:
    """Return the plies that a bot tells."""
    return [int(ply) for ply in PLY.findall(said)]


@pytest.fixture(scope="module")
def python_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the generated Python client, and the example that uses it."""
    folder = tmp_path_factory.mktemp("python")
    shutil.copy(PYTHON / "generated.py", folder)
    said = run(
        BIN / "openapi-python-client",
        "generate",
        *("--path", CONTRACT, "--output-path", folder / "rendezvous_client"),
        *("--meta", "none", "--config", PYTHON / "openapi-python-client.yaml"),
        cwd=folder,
    )
    assert re.fullmatch(r"Generating \S+\s*", said), said
    return folder


@pytest.fixture(scope="module")
def typescript_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the TypeScript example and the types that are generated for it."""
    modules = TYPESCRIPT / "node_modules"
    assert (modules / ".package-lock.json").exists(), (
        "what examples/typescript needs is not installed: `make examples/typescript/node_modules` "
        "does it, for which npm must reach a package registry"
    )
    root = tmp_path_factory.mktemp("typescript")
    folder = root / "examples/typescript"
    shutil.copytree(TYPESCRIPT, folder, ignore=shutil.ignore_patterns("node_modules", "api.d.ts"))
    (folder / "node_modules").symlink_to(modules)
    shutil.copy(CONTRACT, root)
    run("npm", "run", "-s", "generate", cwd=folder)
    return folder


class TestGenerated:
    def test_s_14_the_python_client_has_every_operation_and_sound_types(
        self, python_client: Path
    ) -> None:
        """S-14: generated from the committed contract without a warning, checked by mypy."""
        run(BIN / "mypy", "--strict", "generated.py", "rendezvous_client", cwd=python_client)

        made = {file.stem for file in python_client.glob("rendezvous_client/api/*/*.py")}
        ids = [one["operationId"] for _, _, one in operations(published())]
        assert {re.sub("([A-Z])", r"_\1", name).lower() for name in ids} == made - {"__init__"}

    def test_s_14_the_python_client_plays_a_game_and_verifies_it(
        self, python_client: Path, service: Service
    ) -> None:
        """S-14: a whole game against a live service."""
        url = f"http://127.0.0.1:{service.port}"
        said = run(sys.executable, "generated.py", cwd=python_client, RENDEZVOUS_URL=url)

        assert ENDED.search(said), said

    def test_s_14_the_typescript_client_has_sound_types(self, typescript_client: Path) -> None:
        """S-14: generated from the committed contract, checked by tsc."""
        run("npm", "run", "-s", "check", cwd=typescript_client)

        made = (typescript_client / "api.d.ts").read_text()
        for _, _, operation in operations(published()):
            assert f"    {operation['operationId']}: {{\n" in made

    def test_s_14_a_member_that_the_contract_does_not_have_is_found(
        self, typescript_client: Path, python_client: Path
    ) -> None:
        """S-14: the type checkers do look into what is generated."""
        for folder, name, check in (
            (typescript_client, "bot.ts", ("npm", "run", "-s", "check")),
            (python_client, "generated.py", (str(BIN / "mypy"), "--strict", "generated.py")),
        ):
            sound = (folder / name).read_text()
            (folder / name).write_text(sound.replace("legal_moves", "lawful_moves"))
            with pytest.raises(AssertionError, match="lawful_moves"):
                run(*check, cwd=folder)
            (folder / name).write_text(sound)

    def test_s_14_the_typescript_client_plays_a_game_and_verifies_it(
        self, typescript_client: Path, service: Service
    ) -> None:
        """S-14: a whole game against a live service, over a way that loses requests and answers."""
        with lossy(service.port) as losses:
            said = run("npm", "-s", "start", cwd=typescript_client, RENDEZVOUS_URL=losses.url)

        assert ENDED.search(said), said
        assert plies(said) == list(range(1, len(plies(said)) + 1))
        assert min(losses.requests, losses.answers) > 3


class TestBot:
    def test_s_101_it_plays_by_the_public_contract_over_a_way_that_loses_much(
        self, service: Service, tmp_path: Path
    ) -> None:
        """S-101: every path it asks for is an operation of the contract; no move counts twice."""
        with lossy(service.port) as losses:
            said = run(sys.executable, PYTHON / "bot.py", cwd=tmp_path, RENDEZVOUS_URL=losses.url)

        assert ENDED.search(said), said
        assert plies(said) == list(range(1, len(plies(said)) + 1))
        assert min(losses.requests, losses.answers) > 3
        paths = [
            (method.upper(), re.sub("{.*?}", "[^/]+", path))
            for path, method, _ in operations(published())
        ]
        for method, path in losses.asked:
            bare = path.partition("?")[0]
            assert any(method == one and re.fullmatch(at, bare) for one, at in paths), path

    def test_it_goes_on_with_its_game_after_it_was_killed(
        self, service: Service, tmp_path: Path
    ) -> None:
        service.register("Bot")
        assert service.token
        settings = {
            "RENDEZVOUS_URL": f"http://127.0.0.1:{service.port}",
            "RENDEZVOUS_TOKEN": service.token,
        }
        first = subprocess.Popen(
            [sys.executable, PYTHON / "bot.py"],
            env=variables_of(settings),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert first.stdout
        with first.stdout as lines:
            begun = next(lines).split()[-1]
            told = next(ply for line in lines for ply in plies(line) if ply >= 10)
            first.send_signal(signal.SIGKILL)
        first.wait(PATIENCE)

        said = run(sys.executable, PYTHON / "bot.py", cwd=tmp_path, **settings)

        found = re.search(rf"^going on with {begun} at ply (\d+)$", said, re.MULTILINE)
        assert found, said
        assert int(found[1]) >= told
        ended = ENDED.search(said)
        assert ended
        assert ended[1] == begun
        assert plies(said)[0] == int(found[1]) + 1

    def test_it_goes_on_where_somebody_else_has_played_on(self, service: Service) -> None:
        service.register("Bot")
        game = service.create("royal")
        service.move(game)
        sys.path.insert(0, str(PYTHON))
        try:
            import bot  # noqa: PLC0415 - it lies outside the packages
        finally:
            sys.path.remove(str(PYTHON))

        asking = bot.Service(f"http://127.0.0.1:{service.port}", service.token)
        with closing(asking.connection):
            ended = bot.play(asking, game)

        assert ended["status"] in {"won", "lost"}

    @pytest.mark.parametrize("file", [PYTHON / "bot.py", TYPESCRIPT / "bot.ts"], ids=str)
    def test_each_is_short(self, file: Path) -> None:
        assert len(file.read_text().splitlines()) < 150


def test_the_guide_is_true_word_for_word(
    postgres: EmbeddedPostgres, database: Database, tmp_path: Path
) -> None:
    """What docs/clients.md shows is one program, which runs against a live service."""
    guide = (ROOT / "docs/clients.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    program = tmp_path / "guide.py"
    program.write_text("\n\n".join(blocks))

    assert database
    with serve(tmp_path, DATABASE_URL=postgres.url, RATE_LIMITS="on") as served:
        url = f"http://127.0.0.1:{served.announced().port}"
        run(sys.executable, "-W", "error", program, cwd=tmp_path, RENDEZVOUS_URL=url)

    assert len(blocks) > 15
