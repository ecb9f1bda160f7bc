"""The list of faults and the tests that bear their ids."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (S-\d+) \|", re.MULTILINE)
NAMED = re.compile(r"_s_(\d+)(?=_)|\bS-(\d+)\b")


def listed() -> set[str]:
    return set(ROW.findall((ROOT / "docs/faults.md").read_text()))


def ids_in_tests() -> set[str]:
    """Return the ids that stand in the name or the docstring of a test."""
    found: set[str] = set()
    for file in (ROOT / "tests").glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                told = f"{node.name} {ast.get_docstring(node) or ''}"
                found |= {f"S-{one or other}" for one, other in NAMED.findall(told)}
    return found


def test_every_fault_that_is_listed_has_a_test_that_names_it() -> None:
    assert listed() - ids_in_tests() == set()


def test_every_test_that_names_a_fault_names_one_that_is_listed() -> None:
    assert ids_in_tests() - listed() == set()
