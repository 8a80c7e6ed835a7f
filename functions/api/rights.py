"""Two rights: reading and changing. Who has which is IAM's to say: `api_reader` is deployed beside `api`, for readers."""

from __future__ import annotations

from typing import Literal

from flask import request

from functions.api.answers import ApiError, Said
from functions.api.identity import READS

READS_ONLY = "hullmark.reads_only"
"""In the WSGI environment: whether this request came by the readers' entry. No header becomes it."""
COMPUTES = ("/v1.0/nodefilter", "/v1.0/plans", "/v1.0/versions/impact")
"""Routes whose POST only computes an answer. Whatever else is not GET changes something."""
Right = Literal["reading", "changing"]


def needed(method: str, route: str) -> Right:
    """The right that a call of a route asks for."""
    return "reading" if method in READS or route in COMPUTES else "changing"


def reads_only() -> bool:
    """Whether this request came by the readers' entry."""
    return bool(request.environ.get(READS_ONLY))


def permit() -> None:
    """Raise ApiError 403 for a change that a reader asks for. What is served nowhere stays a 404 or 405."""
    route = request.url_rule
    if route is None or not reads_only() or needed(request.method, route.rule) == "reading":
        return
    cause = (
        f"{request.method} {request.path} changes something, and this address is read-only: get into api_invokers and use the other address"
    )
    raise ApiError(403, "Forbidden", cause, [Said(message=cause, reason="ReadsOnly")])
