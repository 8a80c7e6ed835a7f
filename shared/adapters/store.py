"""Objects in memory, a folder, S3 or GCS, through obstore. Only create-if-absent is ever asked of them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

import obstore
from obstore import exceptions as errors

from shared.ports import ObjectStore, StoreError

PAGE = 1000
"""Objects that S3 and GCS list in one request."""
P = ParamSpec("P")
R = TypeVar("R")


def open_store(url: str) -> ObjectStore:
    """Open `memory:`, `file:FOLDER`, `s3://BUCKET[/PREFIX]` or `gs://BUCKET[/PREFIX]`.

    S3 and GCS find credentials, region and endpoint in their own environment variables (`AWS_*`, `GOOGLE_*`).
    Raises StoreError, naming the url, where it is none of these or the folder can't be made.
    """
    if url in ("memory:", "memory://"):
        return Store(obstore.store.MemoryStore(), url)
    if url.startswith("file:"):
        folder = Path(url.removeprefix("file:").removeprefix("//") or ".").expanduser()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"store {url}: can't make the folder {folder}: {error.strerror}") from error
        return Store(obstore.store.LocalStore(folder.resolve()), url)
    if urlsplit(url).scheme in ("s3", "gs") and urlsplit(url).netloc:
        return Store(_bucket(url), url)
    raise StoreError(f"store {url!r} is none of memory:, file:FOLDER, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX (HULLMARK_STORE)")


def _bucket(url: str) -> Any:
    parts = urlsplit(url)
    prefix = parts.path.strip("/") or None
    try:
        import os

        if parts.scheme == "gs":
            file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS", "")
            provider: Any = federated(file) if file else None
            return obstore.store.GCSStore(parts.netloc, prefix=prefix, credential_provider=provider)
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
        return obstore.store.S3Store(
            parts.netloc, prefix=prefix, client_options={"allow_http": True} if endpoint.startswith("http://") else None
        )
    except errors.BaseError as error:
        raise StoreError(f"store {url}: {error}") from error


def federated(file: str) -> Callable[[], dict[str, Any]] | None:
    """Asks for a token by a credential configuration of a workload identity pool, which obstore can't read; None for any other file,
    of which obstore says what is wrong.
    """
    import json

    try:
        configuration = json.loads(Path(file).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(configuration, dict) or configuration.get("type") != "external_account":
        return None

    def token() -> dict[str, Any]:
        from datetime import UTC

        from google.auth.identity_pool import Credentials
        from google.auth.transport.requests import Request

        credentials = Credentials.from_file(file, scopes=["https://www.googleapis.com/auth/devstorage.read_write"])  # type: ignore[no-untyped-call]
        credentials.refresh(Request())
        return {"token": credentials.token, "expires_at": credentials.expiry.replace(tzinfo=UTC)}

    return token


def _translated(method: Callable[P, R]) -> Callable[P, R]:
    """Turn what obstore raises into a StoreError that names the store and the object."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except (errors.BaseError, OSError, ValueError) as error:
            store: Any = args[0]
            cause = _cause(error)
            raise StoreError(f"store {store.url}: {method.__name__} {args[1] if len(args) > 1 else ''}: {cause}") from error

    return call


def _cause(error: Exception) -> str:
    """What went wrong and what to do, for what people can mend; else the first line of what obstore says."""
    said = str(error)
    if "NoSuchBucket" in said:
        return "there is no such bucket: make it, or correct HULLMARK_STORE"
    if isinstance(error, errors.PermissionDeniedError) and "403" in said:
        return "access denied (403): these credentials need to list, get, create and delete objects in it"
    if isinstance(error, errors.UnauthenticatedError) and "401" in said:
        return "the credentials were not accepted (401): log in anew, or give others"
    if "error sending request" in said:
        return "the service does not answer: check the network, a proxy and the endpoint (AWS_ENDPOINT_URL)"
    return said.splitlines()[0]


class Store:
    """`shared.ports.ObjectStore` over one obstore store."""

    def __init__(self, inner: Any, url: str) -> None:
        self.url = url
        self._inner = inner

    @_translated
    def create(self, key: str, body: bytes) -> bool:
        try:
            obstore.put(self._inner, key, body, mode="create")
        except errors.AlreadyExistsError:
            return False
        return True

    @_translated
    def get(self, key: str) -> bytes | None:
        try:
            return bytes(obstore.get(self._inner, key).bytes())
        except (errors.NotFoundError, FileNotFoundError):
            return None

    @_translated
    def keys(self, prefix: str, after: str = "", limit: int = 0) -> list[str]:
        in_order = limit and not isinstance(self._inner, obstore.store.LocalStore)  # a folder's files come in any order
        batches: Any = obstore.list(
            self._inner, prefix.rstrip("/"), offset=after or None, chunk_size=min(limit, PAGE) if in_order else PAGE
        )
        paths = (str(meta["path"]) for batch in batches for meta in batch)
        return list(itertools.islice(paths, limit)) if in_order else sorted(paths)[: limit or None]

    @_translated
    def folders(self, prefix: str) -> list[str]:
        listing: Any = obstore.list_with_delimiter(self._inner, prefix.rstrip("/"))
        return sorted(str(path).rpartition("/")[2] for path in listing["common_prefixes"])

    @_translated
    def delete(self, key: str) -> None:
        try:
            obstore.delete(self._inner, key)
        except (errors.NotFoundError, FileNotFoundError):
            return
