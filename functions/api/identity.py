"""Who calls, and whether a browser sends the request for another site. Headers that anybody can send are not trusted."""

from __future__ import annotations

import base64
import binascii
import json
import re
from http import HTTPStatus
from urllib.parse import SplitResult, urlsplit

from flask import g, request
from pydantic import BaseModel, ConfigDict, ValidationError

from functions.api.answers import ApiError, Said
from shared import wiring
from shared.ports import Unverified

NOBODY = "unauthenticated"
"""The caller where HULLMARK_IDENTITY says that nothing verifies one."""
CHECKED = "SIGNATURE_REMOVED_BY_GOOGLE"
"""What Cloud Run puts in the place of a signature that it has verified (https://cloud.google.com/run/docs/troubleshooting#signature-removed)."""
READS = ("GET", "HEAD", "OPTIONS")
HOST = re.compile(r"([A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{0,5})?")
"""A Host header. Nothing else is parsed as one: of `evil@127.0.0.1` and `127.0.0.1/evil` every reader makes something else."""


class Claims(BaseModel):
    """What is read of an ID token."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)
    email: str = ""
    sub: str = ""


def who() -> str:
    """The caller of this request, as `identify` found it."""
    return str(g.get("caller", NOBODY))


def identify() -> None:
    """Find out who calls, before any route. Raises ApiError 401 where HULLMARK_IDENTITY asks for a proof that is not there.

    A server of this machine names the caller itself: REMOTE_USER is WSGI's, and no header becomes it.
    """
    g.caller = (str(request.environ.get("REMOTE_USER") or "") or verified(wiring.settings().identity))[:254]


def verified(identity: str) -> str:
    """The caller that `identity` (HULLMARK_IDENTITY) vouches for. Raises ApiError 401."""
    kind, _, audience = identity.partition(":")
    match kind:
        case "cloud-run":
            return of_cloud_run(request.headers.get("X-Serverless-Authorization") or request.headers.get("Authorization", ""))
        case "iap":
            try:
                return wiring.person_behind_iap(request.headers.get("X-Goog-IAP-JWT-Assertion", ""), audience)
            except Unverified as error:
                raise unknown(f"X-Goog-IAP-JWT-Assertion: {error}", 503 if error.retryable else 401) from error
    return NOBODY


def of_cloud_run(authorization: str) -> str:
    """The e-mail (or subject) of the ID token that Cloud Run has verified (X-Serverless-Authorization first). Raises ApiError 401."""
    scheme, _, token = authorization.partition(" ")
    parts = token.strip().split(".")
    if scheme.lower() != "bearer" or len(parts) != 3 or parts[2] != CHECKED:
        raise unknown("this request did not come through Cloud Run's check of its caller: call it with an ID token, at its run.app address")
    claims = claims_of(parts[1])
    if not (caller := claims.email or claims.sub):
        raise unknown("the ID token names nobody")
    return caller


def claims_of(part: str) -> Claims:
    """The middle of a JWT. Raises ApiError 401."""
    try:
        return Claims.model_validate(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))
    except (binascii.Error, ValueError, RecursionError, ValidationError) as error:
        raise unknown("the ID token can't be read") from error


def unknown(cause: str, status: int = 401) -> ApiError:
    """A caller whose identity is not verified."""
    return ApiError(status, HTTPStatus(status).phrase, cause, [Said(message=cause, reason="Unauthenticated")], retry=status == 503)


def same_site() -> None:
    """Refuse what a page of another site makes a browser send: behind IAP, and on loopback, the browser itself is what is trusted.

    Raises ApiError 400 (a Host or Origin that is none) and 403 (another site's; `null` is one).
    """
    host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
    host_name(host)
    if origin is None or split("Origin", origin).netloc == host or request.method in READS:
        return
    raise ApiError(403, "Forbidden", f"a page of {origin[:100]} may not ask this of {host[:100]}")


def sent_by_own_page() -> None:
    """Refuse a form that no page of this address sent. A browser names the page's Origin with every form; a program calls /v1.0.

    Raises ApiError 400 (no Origin) and 403 (another's, as the browser says it; `same_site` has compared the Origin itself).
    """
    if request.headers.get("Origin") is None:
        raise ApiError(
            400, "Bad Request", "this is for the forms of the status page, whose browser names its Origin; programs call /v1.0/rollouts"
        )
    if request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        raise ApiError(403, "Forbidden", "a page of another site may not ask this")


def host_name(host: str) -> str | None:
    """The name in a Host header, in lower case; None for an empty one. Raises ApiError 400 for what is more than a name and a port."""
    if not HOST.fullmatch(host):
        raise ApiError(400, "Bad Request", f"Host: {host[:100]!r} is no host")
    return split("Host", f"//{host}").hostname


def split(name: str, value: str) -> SplitResult:
    """An address in a header. Raises ApiError 400."""
    try:
        parts = urlsplit(value)
        _ = parts.port, parts.hostname
    except ValueError as error:
        raise ApiError(400, "Bad Request", f"{name}: {value[:100]!r} is no host: {error}") from error
    return parts
