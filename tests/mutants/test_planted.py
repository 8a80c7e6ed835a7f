"""The list of planted bugs can't rot: each can still be planted, and the tests that catch it are there. `make mutants` plants them."""

from __future__ import annotations

import ast
import functools

from tests.mutants.planted import ROOT, planted

BUGS = planted()


def test_there_are_at_least_sixty_and_each_has_a_name_of_its_own() -> None:
    assert len(BUGS) >= 60
    assert len({bug.name for bug in BUGS}) == len(BUGS)


def test_every_bug_can_be_planted() -> None:
    assert {bug.name: problem for bug in BUGS if (problem := bug.problem())} == {}


@functools.cache
def meaning(text: str) -> str:
    return ast.dump(ast.parse(text))


def test_every_bug_is_python_and_changes_what_the_file_means() -> None:
    assert [bug.name for bug in BUGS if meaning(bug.changed()) == meaning((ROOT / bug.file).read_text())] == []


@functools.cache
def functions_of(file: str) -> frozenset[str]:
    path = ROOT / file
    found = ast.parse(path.read_text()).body if path.is_file() else []
    return frozenset(each.name for each in found if isinstance(each, ast.FunctionDef))


def test_the_tests_that_catch_them_are_there() -> None:
    named = ((bug.name, *test.partition("[")[0].split("::")) for bug in BUGS for test in bug.tests)
    assert [f"{name}: {file}::{test}" for name, file, test in named if test not in functions_of(file)] == []
