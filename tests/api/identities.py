"""What callers show: ID tokens as Cloud Run passes them on, and Identity-Aware Proxy's signed header."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from google.auth import crypt, jwt


def id_token(signature: str = "SIGNATURE_REMOVED_BY_GOOGLE", **claims: Any) -> str:
    """An ID token as Cloud Run passes it on: checked by the platform, its signature replaced."""
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in ({"alg": "RS256"}, claims)]
    return f"Bearer {'.'.join(parts)}.{signature}"


AUDIENCE = "/projects/1/global/backendServices/2"


class Signer:
    """A key pair that signs as Identity-Aware Proxy does."""

    def __init__(self, key_id: str = "k1") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._id = key_id

    @property
    def public(self) -> Mapping[str, str]:
        """Key id → public key, as Google publishes them."""
        pem = self._key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        return {self._id: pem.decode()}

    def assertion(self, **claims: Any) -> str:
        """The header's value for ada, but for these claims."""
        now = int(time.time())
        usual = {"aud": AUDIENCE, "iss": "https://cloud.google.com/iap", "email": "ada@example.com", "iat": now, "exp": now + 600}
        signer = crypt.ES256Signer(self._key, self._id)
        return str(jwt.encode(signer, {**usual, **claims}).decode())  # type: ignore[no-untyped-call]
