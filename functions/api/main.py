"""The front door: Airship's HTTP API and the status page, every call of docs/http.md.

in   HTTP               under /v1.0 and /api/v1.0; the page at /
out  relabel-requests   RelabelRequest, one for each action accepted here
     node-applies       parts that were parked, when their action goes on or is stopped
     results            an empty result, which lets a stopped action end
     rollouts           RolloutStep, for a rollout that was started or given a word
"""

from __future__ import annotations

import functions_framework
from flask import Request, Response
from werkzeug.exceptions import HTTPException

from shared import telemetry


@functions_framework.http
def api(request: Request) -> Response:
    """Entry point for whoever may change something."""
    return answered("api", request, reads_only=False)


@functions_framework.http
def api_reader(request: Request) -> Response:
    """Entry point for whoever may only read: deployed apart, under an account that can write nothing."""
    return answered("api_reader", request, reads_only=True)


def answered(step: str, request: Request, *, reads_only: bool) -> Response:
    """One line and one span for each request, then the routes of functions/api/app.py."""
    with telemetry.serving(step, f"{request.method} {request.path}", dict(request.headers)) as line:
        from functions.api.app import answer

        response = answer(request.environ, reads_only=reads_only)
        status = response.status_code
        word = "done" if status < 400 else "refused" if status < 500 else "error"
        line.outcome(word, "" if status < 400 else f"HTTP{status}", status=status)
        return response


@functions_framework.errorhandler(HTTPException)  # type: ignore[untyped-decorator]
def refused(error: HTTPException) -> Response:
    """What functions-framework refuses before it comes to us (robots.txt, a line break in the path): in the same form."""
    from functions.api.answers import failure, translated

    return failure(translated(error))
