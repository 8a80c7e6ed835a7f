"""The tables of names, notices and reasons, and what the code and the pages of `docs/` make of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import get_args

import pytest

from local.docs import PAGES
from local.steps import ROOT, load
from shared.domain import notices
from shared.domain.names import ACTIONS, NAMED_NODES, WHOLE_SITE, RelabelName
from shared.domain.notices import NOTICES, NoticeKind


@cache
def product() -> dict[str, ast.Module]:
    """Every module that ships, by its path."""
    files = sorted(path for folder in ("functions", "shared", "local") for path in (ROOT / folder).rglob("*.py"))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in files}


def texts(tree: ast.AST) -> Iterator[str]:
    """Every piece of text in the code, without docstrings."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in prose)
    yield from (node.value for node in constants if isinstance(node.value, str))


def names(tree: ast.AST) -> set[str]:
    """Every name that the code reads or imports."""
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    return imported | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


@pytest.mark.parametrize("name", PAGES)
def test_a_written_page_says_what_its_table_says(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == PAGES[name](), f"docs/{name} is behind its table: run `make docs`"


def test_no_notice_is_named_outside_its_table() -> None:
    named = [path for path, tree in product().items() if any(text.startswith("dev.hullmark.") for text in texts(tree))]
    assert named == ["shared/domain/notices.py"]


@pytest.mark.parametrize("kind", NOTICES, ids=lambda kind: kind.name)
def test_a_notice_is_sent_by_functions_that_may_publish_notices(kind: NoticeKind) -> None:
    constant = next(name for name, value in vars(notices).items() if value is kind)
    sending = [path for path, tree in product().items() if constant in names(tree) and path != "shared/domain/notices.py"]
    assert sending, f"nobody sends {constant}"
    assert all("notices" in load().steps[function].publishes for function in kind.sent_by)


def test_a_request_can_ask_for_exactly_the_actions_on_nodes() -> None:
    assert set(get_args(RelabelName)) == {*NAMED_NODES, *WHOLE_SITE}


def test_no_action_is_named_outside_its_table() -> None:
    known = {kind.name for kind in ACTIONS}
    named = {path for path, tree in product().items() if known & set(texts(tree))}
    examples = {"functions/api/actions.py", "functions/api/tasks.py"}
    assert named <= {"shared/domain/names.py", *examples}, "use the constants of shared.domain.names"
