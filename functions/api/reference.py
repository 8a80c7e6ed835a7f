"""`/reference`: the OpenAPI document for people, rendered by Redoc out of a locked package. Nothing comes from another address."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from flask import Response, render_template, request

from functions.api.answers import ApiError
from functions.api.rendering import headers, pages

PACKAGE = "flask_openapi3_redoc"
"""Has Redoc's script in one file. It is looked up, never imported: it would register itself with Flask."""
SCRIPT = Path("templates", "redoc", "js", "redoc.standalone.js")
POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""Redoc's script alone, from this address; its maker's logo would come from another one, and stays away."""
A_DAY = 86_400

routes = pages("reference")


@routes.get("/reference")
def reference() -> Response:
    """Show every call with its parameters, bodies and answers."""
    known = headers() | {"Content-Security-Policy": POLICY}
    return Response(render_template("reference.html", root=request.script_root), 200, known, mimetype="text/html")


@routes.get("/reference/redoc.js")
def redoc() -> Response:
    """Redoc's script, as its package has it."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ApiError(404, "Not found", "Redoc is not installed here: the package `flask-openapi3-redoc` has it")
    script = (Path(found.submodule_search_locations[0]) / SCRIPT).read_bytes()
    kept = {"X-Content-Type-Options": "nosniff", "Cache-Control": f"private, max-age={A_DAY}"}
    answer = Response(script, 200, kept, mimetype="text/javascript")
    answer.set_etag(hashlib.sha256(script).hexdigest()[:32])
    answer.make_conditional(request)
    return answer
