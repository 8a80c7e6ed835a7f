"""Identity-Aware Proxy's signed header, verified with Google's public keys (https://cloud.google.com/iap/docs/signed-headers-howto)."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping

import urllib3
from google.auth import exceptions, jwt

from shared.ports import Unverified

KEYS = "https://www.gstatic.com/iap/verify/public_key"
ISSUER = "https://cloud.google.com/iap"
ALGORITHM = "ES256"
SKEW = 30
"""Seconds that two clocks may differ."""
KEPT_SECONDS = 3600.0
"""How long keys are believed; Google announces new ones days before it signs with them."""
TIMEOUT = urllib3.Timeout(connect=2.0, read=5.0)


class SigningKeys:
    """Key id → public key, read again when they are old."""

    def __init__(self, read: Callable[[], Mapping[str, str]], clock: Callable[[], float] = time.monotonic) -> None:
        self._read, self._clock = read, clock
        self._lock = threading.Lock()
        self._keys: Mapping[str, str] = {}
        self._until = 0.0

    def now(self) -> Mapping[str, str]:
        """The keys. Raises Unverified where they can't be read."""
        with self._lock:
            if not self._keys or self._clock() >= self._until:
                self._keys, self._until = self._read(), self._clock() + KEPT_SECONDS
            return self._keys


def person(assertion: str, audience: str, keys: SigningKeys) -> str:
    """The e-mail (or subject) that the header's value names. Raises Unverified: no value, another signer, audience, issuer or time."""
    if not assertion:
        raise Unverified("it is missing; call through Identity-Aware Proxy")
    try:
        header = jwt.decode_header(assertion)  # type: ignore[no-untyped-call]
        if header.get("alg") != ALGORITHM:
            raise Unverified(f"it is not signed with {ALGORITHM}")
        claims = jwt.decode(assertion, certs=keys.now(), audience=audience, clock_skew_in_seconds=SKEW)  # type: ignore[no-untyped-call]
    except (exceptions.GoogleAuthError, ValueError) as error:
        raise Unverified(f"it can't be verified: {error}") from error
    named = str(claims.get("email") or claims.get("sub") or "")
    if claims.get("iss") != ISSUER or not named:
        raise Unverified(f"it is not from {ISSUER}, or names nobody")
    return named


@functools.cache
def google_keys() -> SigningKeys:
    """Google's own, read on first use."""
    return SigningKeys(_from_google)


def _from_google() -> Mapping[str, str]:
    try:
        answer = urllib3.request("GET", KEYS, timeout=TIMEOUT, retries=2)
        keys = answer.json() if answer.status == 200 else None
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        raise Unverified(f"the keys at {KEYS} can't be read: {error}", retryable=True) from error
    if not isinstance(keys, dict) or not keys:
        raise Unverified(f"the keys at {KEYS} can't be read: status {answer.status}", retryable=True)
    return {str(name): str(key) for name, key in keys.items()}
