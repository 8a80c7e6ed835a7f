"""`hullmark reasons`: what a reason code means, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

import click

from local.cli.output import Failure, emit, grid, output_option
from shared.domain.reasons.table import GROUPS


@click.command("reasons")
@click.argument("code", required=False)
@output_option
def reasons(code: str | None, form: str) -> None:
    """Explain what CODE means and what to do about it; without CODE, list all reasons."""
    entries = list(_entries())
    known = {entry["reason"] for entry in entries}
    named = next((name for name in known if code and name.lower() == code.lower()), None)
    if code and named is None:
        near = difflib.get_close_matches(code, known, 3)
        hint = f"; close to it: {', '.join(near)}" if near else "; `hullmark reasons` lists all"
        raise Failure("Usage", f"no reason is called {code!r}{hint}")
    answer = [entry for entry in entries if named in (None, entry["reason"])]
    emit(form, {"reasons": answer}, lambda: _lines(answer) if named else _table(answer))


def _entries() -> Iterator[dict[str, str]]:
    for group in GROUPS:
        for code, reason in group.reasons.items():
            about = {"about": group.title, "saidBy": group.said_by}
            yield {"reason": code, "meaning": reason.meaning, "causes": reason.causes, "do": reason.remedy, **about}


def _lines(entries: list[dict[str, Any]]) -> Iterable[str]:
    for entry in entries:
        yield f"{entry['reason']} ({entry['about']}): {entry['meaning']}"
        if entry["causes"]:
            yield f"  causes   {entry['causes']}"
        if entry["do"]:
            yield f"  do       {entry['do']}"
        yield f"  from     {entry['saidBy']}"


def _table(entries: list[dict[str, Any]]) -> Iterable[Any]:
    yield grid(("reason", "about", "meaning", "do"), ((e["reason"], e["about"], e["meaning"], e["do"]) for e in entries))
