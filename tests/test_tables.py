"""The tables of names, notices and reasons, and what the code and the pages of `docs/` make of them."""

from __future__ import annotations

import ast
from functools import cache
from typing import get_args

import pytest

from local.docs import PAGES
from local.steps import ROOT, load
from shared.domain import notices
from shared.domain.names import ACTIONS, NAMED_NODES, WHOLE_SITE, RelabelName
from shared.domain.notices import NOTICES, NoticeKind
from shared.domain.pods.webhooks import CHECKS
from shared.domain.reasons.pods import PODS
from shared.domain.reasons.reason import Group
from shared.domain.reasons.table import GROUPS
from tests.reason_codes import said


@cache
def product() -> dict[str, ast.Module]:
    """Every module that ships, by its path."""
    files = sorted(path for folder in ("functions", "shared", "local") for path in (ROOT / folder).rglob("*.py"))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in files}


@cache
def texts(path: str) -> frozenset[str]:
    """Every piece of text in a module's code, without docstrings."""
    nodes = list(ast.walk(product()[path]))
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    constants = (node for node in nodes if isinstance(node, ast.Constant) and id(node) not in prose)
    return frozenset(node.value for node in constants if isinstance(node.value, str))


@cache
def names(path: str) -> frozenset[str]:
    """Every name that a module reads, imports or gives to a class."""
    found = set[str]()
    for node in ast.walk(product()[path]):
        match node:
            case ast.ImportFrom(names=imported):
                found |= {alias.name for alias in imported}
            case ast.Name(id=name) | ast.ClassDef(name=name):
                found.add(name)
    return frozenset(found)


@pytest.mark.parametrize("name", PAGES)
def test_a_written_page_says_what_its_table_says(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == PAGES[name](), f"docs/{name} is behind its table: run `make docs`"


def test_no_notice_is_named_outside_its_table() -> None:
    named = [path for path in product() if any(text.startswith("dev.hullmark.") for text in texts(path))]
    assert named == ["shared/domain/notices.py"]


@pytest.mark.parametrize("kind", NOTICES, ids=lambda kind: kind.name)
def test_a_notice_is_sent_by_functions_that_may_publish_notices(kind: NoticeKind) -> None:
    constant = next(name for name, value in vars(notices).items() if value is kind)
    sending = [path for path in product() if constant in names(path) and path != "shared/domain/notices.py"]
    assert sending, f"nobody sends {constant}"
    assert all("notices" in load().steps[function].publishes for function in kind.sent_by)


def test_a_request_can_ask_for_exactly_the_actions_on_nodes() -> None:
    assert set(get_args(RelabelName)) == {*NAMED_NODES, *WHOLE_SITE}


def test_no_action_is_named_outside_its_table() -> None:
    known = {kind.name for kind in ACTIONS}
    named = {path for path in product() if known & texts(path)}
    examples = {"functions/api/actions.py", "functions/api/tasks.py"}
    assert named <= {"shared/domain/names.py", *examples}, "use the constants of shared.domain.names"


SAID = said(product())
FOREIGN = {"FieldManagerConflict", "ResourceNotFoundException", "Unschedulable"}
"""Others' codes, which the code looks for in what they answer."""
CODES = [(group, code) for group in GROUPS for code in group.reasons]


@pytest.mark.parametrize("code", sorted(set(SAID) - FOREIGN))
def test_a_reason_that_the_code_says_is_in_the_table_of_those_who_say_it(code: str) -> None:
    known = tuple(start for group in GROUPS if code in group.reasons for start in group.modules)
    unlisted = [path for path in sorted(SAID[code]) if not path.startswith(known)]
    assert not unlisted, f"add {code} to a group of shared/domain/reasons whose modules cover {', '.join(unlisted)}"


@pytest.mark.parametrize(("group", "code"), CODES, ids=[f"{group.title}: {code}" for group, code in CODES])
def test_a_reason_in_the_table_is_said_by_those_it_names(group: Group, code: str) -> None:
    word = code.partition(":")[0]
    spoken = any(text.partition(":")[0] == word for path in product() if path.startswith(group.modules) for text in texts(path))
    assert spoken or any(code in names(path) for path in product()), f"nobody says {code}: take it out of {group.title}"


def test_a_check_of_webhooks_has_its_reason() -> None:
    assert {name for name, _, _ in CHECKS} <= set(PODS.reasons)
