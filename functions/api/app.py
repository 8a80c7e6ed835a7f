"""The routes, put together on first use, and the one place where an exception becomes an answer."""

from __future__ import annotations

import functools
import io
import json
import logging
from typing import IO, Any

from flask import Request as FlaskRequest
from flask import Response
from flask_openapi3.models.info import Info
from flask_openapi3.models.server import Server
from flask_openapi3.openapi import OpenAPI
from pydantic import ValidationError
from werkzeug.exceptions import BadRequest

from functions.api import (
    actions,
    changes,
    configdocs,
    explaining,
    health,
    holds,
    identity,
    nodes,
    page,
    plans,
    reference,
    refusals,
    revisions,
    rights,
    rollouts,
    search,
    sync,
    tasks,
    versions,
)
from functions.api.answers import ApiError, Status, failure, invalid, translated

MAX_BODY = 8 * 2**20
"""Bytes of one request's body: a site's documents are below 2 MB, functions-framework itself takes 10 MB."""
ABOUT = """Keeps the labels of Kubernetes nodes in sync with documents: Airship's calls (Shipyard, Drydock, Promenade), and a few more.

Everything under `/v1.0` is served under `/api/v1.0` too. Who may call is decided by the platform before a request comes here;
the caller is recorded with every action. Every 4xx and 5xx has the same body, with every problem in `details.messageList`."""

log = logging.getLogger("hullmark.api")


class Request(FlaskRequest):
    """A request whose JSON is read strictly: what is not JSON says so, instead of becoming null."""

    def _get_file_stream(self, *_: Any, **__: Any) -> IO[bytes]:
        """Uploads stay in memory, which MAX_BODY bounds: nothing that was sent becomes a file, not even one without a name."""
        return io.BytesIO()

    def get_json(self, *_: Any, **__: Any) -> Any:
        """The body. Raises ApiError 400 (empty, broken) and 415 (another type)."""
        if self.mimetype and not self.is_json:
            said = f"the body is {self.mimetype}: send JSON, with Content-Type: application/json"
            raise ApiError(415, "Unsupported Media Type", said)
        if not self.get_data():
            raise ApiError(400, "Invalid format", "the body is empty: send a JSON object")
        try:
            value = json.loads(self.get_data(), parse_constant=_no_number, object_pairs_hook=_each_key_once)
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text, and could not be kept
        except (ValueError, RecursionError) as error:
            raise ApiError(400, "Invalid format", f"the body is not JSON: {error}") from error
        return value


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Which of two values counts is each reader's own choice: what was checked might not be what is done."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{next(key for key in keys if keys.count(key) > 1)[:80]!r} is there twice")
    return found


def refuse(error: ValidationError) -> Response:
    """flask-openapi3's callback for what a model refuses."""
    return failure(invalid("Invalid format", error))


def caught(error: Exception) -> Response:
    """Every exception that leaves a route."""
    if isinstance(error, BadRequest) and error.response is not None:
        return failure(ApiError(400, "Invalid format", str(error.description)))
    known = translated(error)
    if known.status == 500:
        log.exception("unexpected error", exc_info=error)
    return failure(known)


@functools.cache
def application() -> OpenAPI:
    """The Flask application, with its OpenAPI document in `api_doc`."""
    app = OpenAPI(
        "functions.api",
        info=Info(title="Hullmark", version="1.0", description=ABOUT),
        servers=[Server(url="/"), Server(url="/api", description="Airship's prefix")],
        security_schemes={"identity": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "Google ID token"}},
        openapi_extensions={"security": [{"identity": []}, {}]},
        doc_ui=False,
        static_folder=None,
        validation_error_status=400,
        validation_error_model=Status,
        validation_error_callback=refuse,
    )
    app.request_class = Request
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.url_map.strict_slashes = False
    for noun in (actions, configdocs, revisions, tasks, nodes, explaining, plans, rollouts, holds, versions, refusals, health):
        app.register_api(noun.routes)
    for pages in (page, sync, changes, search, reference):
        app.register_blueprint(pages.routes)
    app.before_request(identity.same_site)
    app.before_request(identity.identify)
    app.before_request(rights.permit)
    app.register_error_handler(Exception, caught)
    return app


def answer(environ: dict[str, Any], *, reads_only: bool = False) -> Response:
    """Answer one WSGI request; with `reads_only`, refuse what changes something.

    `/api/…` is the same as `/…`, and what is answered there stays there (Location, links).
    """
    if environ["PATH_INFO"].startswith("/api/"):
        path, script = environ["PATH_INFO"].removeprefix("/api"), environ.get("SCRIPT_NAME", "") + "/api"
        environ = {**environ, "PATH_INFO": path, "SCRIPT_NAME": script}
    environ[rights.READS_ONLY] = reads_only
    environ.pop("werkzeug.request", None)
    answered: Response = Response.from_app(application(), environ)  # type: ignore[assignment]
    return answered
