"""How a page is made: the words that templates use, the headers, and what a browser needs to look again without loading anew."""

from __future__ import annotations

import functools
import hashlib
import logging
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from flask import Blueprint, Response, render_template, request
from markupsafe import Markup, escape

from functions.api.answers import translated
from functions.api.buttons import buttons, command, named
from functions.api.expiries import AHEAD
from functions.api.rights import reads_only
from functions.api.rolling import ACTIONS, PLACES
from shared.domain.overview import KINDS
from shared.domain.rollouts.approvals import lines

if TYPE_CHECKING:
    from functions.api.standing import Standing
    from shared.domain.reasons.reason import Group, Reason

log = logging.getLogger("hullmark.api")
ROWS = 200
"""Most rows of a table; a line below it says where to see the rest."""
SHOWN = 25
"""Nodes of a cause that the first page lists; its own page has them all."""
KEYS = 8
"""Most label keys that a line names."""
SCRIPT = Path(__file__).parent / "templates" / "page.js"
TONES: Mapping[str, str] = {"failed": "bad", "missing": "bad", "skipped": "warn", "waiting": "warn"}
"""The colour of each way to be out of sync."""
SINCE: Final = '<span id="as-of">'
"""What follows says when the page was made: two pages that differ in nothing else are one."""


def pages(name: str) -> Blueprint:
    """A blueprint of pages: what goes wrong is said on a page too."""
    made = Blueprint(name, __name__, template_folder="templates")
    made.register_error_handler(Exception, refused)
    return made


def refused(error: Exception) -> Response:
    """Say on a page what was refused, or went wrong."""
    known = translated(error)
    if known.status == 500:
        log.exception("unexpected error", exc_info=error)
    return page("refused.html", None, http=known.status, title=known.title, cause=known.cause)


@functools.cache
def script() -> Markup:
    """The script of every page: it looks again, and shows times in the reader's zone. Everything works without it."""
    return Markup(SCRIPT.read_text())  # noqa: S704 - a file of ours


@functools.cache
def headers() -> dict[str, str]:
    """The headers of every page. The one script is named by its hash, so that no other runs."""
    allowed = b64encode(hashlib.sha256(script().encode()).digest()).decode()
    policy = {
        "default-src": "'none'",
        "img-src": "data:",
        "style-src": "'unsafe-inline'",
        "script-src": f"'sha256-{allowed}'",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{what} {whom}" for what, whom in policy.items()),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",  # with `no-referrer` a browser names the Origin of our own forms as null
        "Cache-Control": "no-store",
    }


def page(template: str, now: datetime | None, *, http: int = 200, refresh: int = 0, moves: bool = True, **shown: object) -> Response:
    """Render a page. `refresh`: after how many seconds a browser looks again (0: not at all), without scripts too where something moves."""
    words = {
        "ago": ago,
        "mark": mark,
        "many": many,
        "asked": asked,
        "units": units,
        "ahead_of": ahead_of,
        "explained": explained,
        "ticked": ticked,
        "script": script,
    }
    rolling = {"buttons": buttons, "named": named, "command": command, "places": PLACES, "linked": ACTIONS, "rows": ROWS, "lines": lines}
    sync = {"kinds": KINDS, "tones": TONES, "keys_shown": KEYS}
    about = {"now": now, "root": request.script_root, "ahead": AHEAD, "refresh": refresh, "moves": moves, "readonly": reads_only()}
    text = render_template(template, **about, **words, **rolling, **sync, **shown)
    before, _, after = text.partition(SINCE)
    tag = hashlib.sha256((before + after.partition("</span>")[2]).encode()).hexdigest()[:32]
    answer = Response(text, http, headers(), mimetype="text/html")
    answer.set_etag(tag, weak=True)
    if http == 200:
        answer.make_conditional(request)
    return answer


def explained(code: str) -> list[tuple[Group, Reason]]:
    """Every entry of a reason, with who reports it; none for a foreign one."""
    from shared.domain.reasons.table import GROUPS

    return [(group, group.reasons[code]) for group in GROUPS if code in group.reasons]


def ago(moment: datetime, now: datetime) -> str:
    """Say how long ago, in the largest fitting unit: `5 min ago`."""
    span = _span(now, moment)
    return f"{span} ago" if span else "just now"


def ahead_of(moment: datetime, now: datetime) -> str:
    """Say in how long: `in 5 min`."""
    span = _span(moment, now)
    return f"in {span}" if span else "within a minute"


def _span(later: datetime, earlier: datetime) -> str:
    """The largest fitting unit; empty below a minute."""
    seconds = (later - earlier).total_seconds()
    return next((f"{int(seconds // size)} {unit}" for size, unit in ((86400, "d"), (3600, "h"), (60, "min")) if seconds >= size), "")


def mark(word: str) -> str:
    """Return the colour of an outcome or state; the word itself is always shown too."""
    colours = {
        "good": ("success", "Complete", "changed", "unchanged", "done", "through"),
        "bad": ("failure", "Failed", "failed", "missing", "expired", "blocked"),
        "warn": ("partial_success", "stopped", "skipped", "waiting", "Paused", "paused", "aborted", "superseded", "reverted"),
    }
    return next((colour for colour, words in colours.items() if word in words), "busy")


def ticked(text: str) -> Markup:
    """A text with what stands between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one has no partner
        return escape(text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(parts))


def many(count: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def units(standing: Standing) -> str:
    """Say what an action counts: nodes, or clusters where it is over several."""
    return "clusters" if standing.request.clusters else "nodes"


def asked(standing: Standing) -> str:
    """Say which nodes an action targets: every node, a filter, or names; and of which clusters where they are several."""
    which = standing.request.meant
    return f"{which} of {standing.request.where}" if standing.request.clusters else which
