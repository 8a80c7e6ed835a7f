"""The pages of `docs/` that are written from the tables of `shared/domain`. `make docs` (`python -m local.docs`) writes them anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from local.steps import ROOT
from shared.domain.names import ACTIONS, TAGS
from shared.domain.notices import NOTICES
from shared.domain.reasons.table import GROUPS, WAITS

WRITTEN = "<!-- Written by `make docs`; edit the table instead: {source} -->"


def actions_page() -> str:
    """`docs/actions.md`."""
    rows = [(f"`{kind.name}`", kind.nodes, kind.does, kind.asked_by) for kind in ACTIONS]
    tags = [(f"`{tag}`", means) for tag, means in TAGS.items()]
    return _page(
        "Actions and tags",
        "shared/domain/names.py",
        "The actions that can be requested. Every action is recorded, shows its progress, and ends.",
        "",
        *_table(("action", "nodes", "what it does", "requested by"), rows),
        "",
        "## Tags of revisions",
        "",
        "Hullmark sets these; you may set others (`hullmark documents tag`). Single nodes can be relabelled once any revision has a tag of",
        "a site action.",
        "",
        *_table(("tag", "meaning"), tags),
    )


def notices_page() -> str:
    """`docs/notices.md`."""
    rows = [(f"`{kind.name}`", kind.when, ", ".join(kind.sent_by), kind.subject, kind.data) for kind in NOTICES]
    return _page(
        "Notices",
        "shared/domain/notices.py",
        "Notices for people and other systems, on the topic `notices`: CloudEvents (JSON, structured) with the type",
        "`dev.hullmark.NAME.v1` and the source `hullmark`. A notice that is sent again keeps its id, so a reader can drop",
        "repeats; every notice is delivered at least once.",
        "",
        *_table(("NAME", "sent when", "by", "subject", "data"), rows),
        "",
        "Reasons are explained in [reasons.md](reasons.md).",
    )


def reasons_page() -> str:
    """`docs/reasons.md`."""
    lines = [
        "Every outcome, refusal and problem has a reason, a code to group by, and a message with the details.",
        "`hullmark reasons CODE` prints these entries. Foreign codes pass through unchanged: an API server's own",
        "(`metav1.Status`), AWS's error codes, `HTTP` with a status if there is no code, and the class of an unexpected exception.",
    ]
    for group in GROUPS:
        rows = [(f"`{code}`", reason.meaning, reason.remedy or "nothing") for code, reason in group.reasons.items()]
        lines += ["", f"## {group.title}", "", f"Reported by {group.said_by}.", "", *_table(("reason", "meaning", "what to do"), rows)]
    return _page("Reasons", "shared/domain/reasons/", *lines)


def waits_page() -> str:
    """`docs/waits.md`."""
    lines = [
        "What a [rollout](rollouts.md) waits for, and why it stops or refuses a word: reasons that `hullmark rollout status` and `watch`,",
        "the status page and notices name. All others are in [reasons.md](reasons.md).",
    ]
    for code, reason in WAITS.items():
        lines += ["", f"## {code}", "", f"**Means**: {reason.meaning}."]
        lines += ["", f"**Likely causes**: {reason.causes}."] if reason.causes else []
        lines += ["", f"**What to do**: {reason.remedy or 'nothing'}."]
    return _page("What a rollout waits for", "shared/domain/reasons/", *lines)


PAGES: dict[str, Callable[[], str]] = {
    "actions.md": actions_page,
    "notices.md": notices_page,
    "reasons.md": reasons_page,
    "waits.md": waits_page,
}


def _page(title: str, source: str, *lines: str) -> str:
    return "\n".join([f"# {title}", "", WRITTEN.format(source=source), "", *lines, ""])


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (ROOT / "docs" / name).write_text(page())


if __name__ == "__main__":
    main()
