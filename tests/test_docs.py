"""The documentation is part of the house: what it links to and what cites it is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from local.steps import ROOT

NAMED_TEST = re.compile(r"`((?:[a-z_]+/)*test_[a-z_]+\.py)?(?:::(test_\w+))?`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CITED = re.compile(r"docs/[a-z-]+\.md")
OUTSIDE = re.compile(r"DESIGN ?§|DESIGN\.md|FACTS\.md|FACTS §|KUBE\.md|STYLE\.md|rules §|(?<![\w/])rules/")


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def tracked(*folders: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z", "--", *folders], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def anchor(heading: str) -> str:
    """The anchor that a heading gets on the forges that render these pages."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", ""))
    return kept.replace(" ", "-")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    lost = []
    for target in LINK.findall(text(page)):
        if "://" in target:
            continue
        file, _, section = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        headings = {anchor(line.lstrip("#")) for line in text(there).splitlines() if line.startswith("#")} if there.is_file() else set()
        if not there.exists() or (section and section not in headings):
            lost.append(target)
    assert lost == []


def test_every_page_that_the_code_cites_is_there() -> None:
    cited = {page for file in tracked("functions", "shared", "local", "terraform", "bench") for page in CITED.findall(text(file))}
    assert cited, "nothing was searched"
    assert [page for page in sorted(cited) if not (ROOT / page).is_file()] == []


@pytest.mark.parametrize("page", ["security.md", "assumptions.md"])
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    """What holds a rule of these pages is a test: a row whose test is gone holds nothing."""
    lost, named = [], 0
    for line in text(ROOT / "docs" / page).splitlines():
        file = ""
        for given, test in NAMED_TEST.findall(line):
            file = given or file  # `::test_x` is of the file that the row named before
            if not (given or test):
                continue
            named += 1
            path = ROOT / (file if file.startswith("tests/") else f"tests/{file}")
            if not (file and path.is_file()) or (test and f"def {test}(" not in text(path)):
                lost.append(f"{file}::{test}")
    assert named > 20, "the table is read"
    assert lost == []


def test_every_assumption_about_google_has_a_source_and_says_what_holds_it() -> None:
    rows = [line for line in text(ROOT / "docs" / "assumptions.md").splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    judged = [row for row in cells if row != ["assumed", "source", "held by"]]
    assert len(judged) > 30
    assert [row[0] for row in judged if len(row) != 3 or "<https://" not in row[1] or not row[2]] == []
    unheld = [row[0] for row in judged if not NAMED_TEST.search(row[2]) and not re.search(r"\bno\b|as above", row[2])]
    assert unheld == [], "neither a test nor the word that there is none"


def test_the_index_names_every_page() -> None:
    index = text(ROOT / "docs" / "README.md")
    assert [page.name for page in (ROOT / "docs").glob("*.md") if page.name != "README.md" and f"({page.name})" not in index] == []


def test_the_repository_explains_itself() -> None:
    files = [file for file in tracked(".") if "tests" not in file.relative_to(ROOT).parts]
    assert files
    assert [str(file.relative_to(ROOT)) for file in files if OUTSIDE.search(text(file))] == []
