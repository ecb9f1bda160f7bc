"""Rulesets are data: nothing tells them apart but their rows, and a new one is a new row."""

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import naive
import pytest
from server import environment, new_database

from service.engine import RULESETS, Position, deal, table
from service.engine.cards import render_cards
from service.store.embedded import EmbeddedPostgres

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "rulesets.md").read_text("utf-8")
ROWS = "service/engine/rulesets.py"
PUBLISHED = json.loads((ROOT / "docs" / "vectors" / "deal-1.json").read_text("utf-8"))["deals"]
RENDEZVOUS = ("-c", "from service.cli import main; main()")
LOOKS_INTO = {
    "startswith",
    "endswith",
    "find",
    "index",
    "count",
    "partition",
    "rpartition",
    "split",
}


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the product but the one with the rows."""
    for path in sorted((ROOT / "service").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name != ROWS:
            yield name, ast.parse(path.read_text("utf-8"))


def docstrings(tree: ast.Module) -> set[int]:
    """The numbers of the nodes that are statements by themselves, as docstrings are."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def texts(node: ast.AST) -> list[str]:
    return [
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]


def asks_for_a_name(node: ast.AST) -> bool:
    """Whether a ruleset's name is compared with a text, or looked into."""
    sides: list[ast.AST]
    match node:
        case ast.Compare(left=left, comparators=others):
            sides = [left, *others]
        case ast.Call(func=ast.Attribute(value=left, attr=attr), args=others) if attr in LOOKS_INTO:
            sides = [left, *others]
        case ast.Match(subject=left, cases=cases):
            sides = [left, *cases]
        case _:
            return False
    named = [side for side in sides if re.search(r"(ruleset|game|edition)(\.name)?$", text(side))]
    return bool(named) and any(texts(side) for side in sides)


def text(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, ast.expr) else ""


class TestNames:
    def test_no_module_but_the_table_has_the_name_of_a_ruleset(self) -> None:
        for name, tree in sources():
            told = docstrings(tree)
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and id(node) not in told:
                    assert node.value not in RULESETS, f"{name}:{node.lineno}"

    def test_nothing_depends_on_what_a_ruleset_is_called(self) -> None:
        for name, tree in sources():
            for node in ast.walk(tree):
                assert not asks_for_a_name(node), f"{name}:{getattr(node, 'lineno', 0)}"

    @pytest.mark.parametrize(
        "code",
        [
            "if ruleset == 'royal-rendezvous-1': pass",
            "x = 1 if 'pysol' in ruleset.name else 2",
            "y = row.game != 'Odd and Even'",
            "while self.rules.ruleset.name.startswith('royal'): pass",
            "match ruleset:\n    case 'odd-and-even-1': pass",
            "z = ruleset in {'royal-cotillion-1', 'odd-and-even-1'}",
            "a = 'pysol' in header['ruleset'].lower() or game.split('-')[0] == 'odd'",
        ],
    )
    def test_that_would_be_found(self, code: str) -> None:
        assert any(map(asks_for_a_name, ast.walk(ast.parse(code))))


class TestPage:
    def test_its_table_tells_every_ruleset_as_it_is_played(self) -> None:
        assert part("rulesets") == rulesets_table()

    def test_its_families_are_those_that_are_built(self) -> None:
        assert part("families") == families_table()

    def test_its_deals_are_of_every_ruleset(self) -> None:
        dealt = {(name, row["seed"]) for row in PUBLISHED for name in row["rulesets"]}
        seeds = {row["seed"] for row in PUBLISHED}

        assert len(seeds) == 10
        assert dealt == {(name, seed) for name in RULESETS for seed in seeds}

    @pytest.mark.parametrize(
        "row", PUBLISHED, ids=lambda row: f"{row['rulesets'][0]}-{row['seed']}"
    )
    def test_its_deals_are_those_of_both_engines(self, row: dict[str, Any]) -> None:
        for name in row["rulesets"]:
            position = Position(table(name), deal("deal-1", name, row["seed"]))
            second = naive.deal(name, "deal-1", row["seed"])

            for reserve, columns, waste, stock in (
                (
                    render_cards(position.tops[: position.rules.reserve]),
                    list(map(render_cards, position.columns)),
                    render_cards(position.waste),
                    render_cards(position.stock[::-1]),
                ),
                (second.reserve, second.columns, second.waste, second.stock),
            ):
                assert row["reserve"].split() == reserve
                assert [column.split() for column in row["columns"]] == columns
                assert row["waste"].split() == waste
                assert row["stock"].split() == stock


def part(name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", PAGE, re.DOTALL)
    assert found
    return found[1]


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rulesets_table() -> str:
    head = ["ruleset", "foundations", "reserve", "columns", "draws", "empty places"]
    head += ["turns", "redeals", "hops"]
    return markdown(
        head,
        [
            [
                f"`{row.name}`",
                ", ".join(family.name for family in row.families),
                " + ".join(map(str, row.reserve)),
                str(row.columns or "-"),
                row.draw,
                row.fill,
                "yes" if row.turns else "-",
                str(row.redeals or "-"),
                "yes" if row.hops else "-",
            ]
            for row in RULESETS.values()
        ],
    )


def families_table() -> str:
    rows: dict[tuple[str, ...], list[str]] = {}
    for row in RULESETS.values():
        for family in row.families:
            key = (
                family.name,
                " ".join(family.ranks),
                "laid out" if family.laid_out else "comes",
                family.waits_for or "-",
            )
            rows.setdefault(key, []).append(f"`{row.name}`")
    return markdown(
        ["family", "cards, base first", "base", "waits", "in"],
        [[*key, ", ".join(names)] for key, names in rows.items()],
    )


SCENARIO = """
import json, sys
from service.app import create_app
from service.engine import RULESETS, verify
from service.settings import Settings
from service.store.database import Database

name, url = sys.argv[1:]
client = create_app(Settings(rate_limits="off"), Database(url)).test_client()
token = client.post("/v1/players", json={"name": "Ada"}).json["token"]
owner = {"Authorization": f"Bearer {token}"}
rules = client.get(f"/v1/rulesets/{name}").json
game = client.post(
    "/v1/games", json={"ruleset": name, "deal": {"seed": "1"}}, headers=owner
).json
played, fill = [], {}
while game["status"] == "playing":
    moves = game["legal_moves"]
    plays = [move for move in moves if move["to"] not in {"waste", "stock"}]
    move = (plays or moves)[0]
    played.append(f"{move['from']}:{move['to']}")
    body = {"ply": game["ply"], "moves": [move]}
    game = client.post(f"{game['links']['self']}/moves", json=body, headers=owner).json
document = client.get(f"{game['links']['self']}/replay").json
print(json.dumps({
    "known": list(RULESETS), "rules": rules, "log": document["log"], "played": played,
    "status": game["status"], "offline": verify(document).verdict,
    "online": client.post("/v1/replays/verify", json=document).json["verdict"],
    "document": document,
}))
"""


class TestHouseRule:
    """The row that the page shows, put where it says: everything else follows."""

    def test_it_is_played_recorded_and_verified_by_the_row_alone(
        self, tmp_path: Path, postgres: EmbeddedPostgres
    ) -> None:
        found = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
        assert found
        row = found[1]
        name = row.split('"')[1]
        assert len(row.splitlines()) <= 10
        shutil.copytree(ROOT / "service", tmp_path / "service")
        shutil.copytree(ROOT / "migrations", tmp_path / "migrations")
        rows = tmp_path / ROWS
        before, end = rows.read_text("utf-8").rsplit("    )\n}", 1)
        rows.write_text(f"{before}{indent(row.rstrip(), ' ' * 8)},\n    )\n}}{end}", "utf-8")

        with new_database(postgres) as url:
            self.run(tmp_path, url, *RENDEZVOUS, "migrate")
            told = json.loads(self.run(tmp_path, url, "-c", SCENARIO, name, url))
        (tmp_path / "game.json").write_text(json.dumps(told["document"]), "utf-8")
        judged = self.run(tmp_path, url, *RENDEZVOUS, "verify", str(tmp_path / "game.json"))
        listed = self.run(tmp_path, url, *RENDEZVOUS, "rules")
        dealt = self.run(tmp_path, url, *RENDEZVOUS, "deal", "7", "--ruleset", name)
        contract = self.run(tmp_path, url, "-m", "service.api.spec")

        assert told["known"] == [*RULESETS, name]
        assert "to be the stock again: once." in json.dumps(told["rules"])
        assert told["log"] == told["played"]
        assert told["status"] in {"won", "lost"}
        assert told["log"].count("waste:stock") == 1
        assert told["offline"] == told["online"] == "valid"
        assert "1 valid" in judged
        assert name in listed
        assert "r16" in dealt
        assert f"- {name}\n" in contract

    def run(self, folder: Path, url: str, *command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env=environment(DATABASE_URL=url, PYTHONPATH=str(folder), COLUMNS="80"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
