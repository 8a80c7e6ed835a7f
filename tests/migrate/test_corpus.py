"""Awkward manifests with their findings and their bytes after the rewrite, read and agreed by hand.

`findings.txt` has one line for each old key: FILE:LINE:COLUMN: ACTION: KEY: WHY.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from shared.domain.manifests.findings import KUBERNETES, Finding, Renamings, examine

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(str(path.relative_to(CORPUS / "before")) for path in (CORPUS / "before").rglob("*") if path.is_file())
RENAMINGS = Renamings.of()


def told(name: str, findings: Sequence[Finding]) -> list[str]:
    return [f"{name}:{f.line}:{f.column}: {f.action}: {f.old}: {f.why}" for f in findings]


@pytest.mark.parametrize("name", FILES)
def test_each_file_has_the_findings_agreed_on(name: str) -> None:
    agreed = [line for line in (CORPUS / "findings.txt").read_text().splitlines() if line.startswith(f"{name}:")]

    assert told(name, examine((CORPUS / "before" / name).read_bytes(), RENAMINGS).findings) == agreed


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_rewritten_to_the_bytes_agreed_on(name: str) -> None:
    assert examine((CORPUS / "before" / name).read_bytes(), RENAMINGS).data == (CORPUS / "after" / name).read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_a_second_run_finds_only_what_was_left_for_a_person(name: str) -> None:
    before = examine((CORPUS / "before" / name).read_bytes(), RENAMINGS)
    again = examine(before.data, RENAMINGS)

    assert again.data is before.data
    assert [(f.line, f.old) for f in again.findings] == [(f.line, f.old) for f in before.findings if f.action == "report"]


@pytest.mark.parametrize("name", FILES)
def test_every_rewrite_puts_the_new_key_where_the_old_one_stood_and_touches_nothing_else(name: str) -> None:
    data = (CORPUS / "before" / name).read_bytes()
    expected = data
    new = {renaming.old: renaming.new for renaming in KUBERNETES}
    for finding in reversed([f for f in examine(data, RENAMINGS).findings if f.action == "rewrite"]):
        lines = expected.split(b"\n")
        text = lines[finding.line - 1].decode("utf-8-sig" if finding.line == 1 else "utf-8")
        start = finding.column - 1
        length = next(n for n in range(len(finding.old), len(finding.old) + 2) if plain(text[start : start + n]) == finding.old)
        written = new[finding.old].replace(
            "/", text[start : start + length].removeprefix(finding.old.partition("/")[0])[: length - len(finding.old) + 1]
        )
        mark = b"\xef\xbb\xbf" if finding.line == 1 and data.startswith(b"\xef\xbb\xbf") else b""
        lines[finding.line - 1] = mark + (text[:start] + written + text[start + length :]).encode()
        expected = b"\n".join(lines)

    assert examine(data, RENAMINGS).data == expected


def plain(text: str) -> str:
    return text.replace("~1", "/").replace("\\/", "/")


def test_the_corpus_has_every_form_that_counts() -> None:
    actions = [line.split(": ")[1] for line in (CORPUS / "findings.txt").read_text().splitlines()]

    assert len(FILES) >= 15
    assert actions.count("rewrite") > 40
    assert actions.count("report") > 30
