"""Records in the store: JSON objects written once, read back as the model that wrote them, numbered by their names.

An object that is there and can't be read (cut short, empty, of a newer version) is `RecordUnreadable`, with its key. It concerns what it
is a record of and nothing else: an action ends as failed with that reason, a list shows all the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from pydantic import ValidationError

from shared.domain.actions import UNREADABLE, Record
from shared.messages import Malformed
from shared.ports import ObjectStore, StoreError

R = TypeVar("R", bound=Record)
T = TypeVar("T")


class RecordUnreadable(StoreError):
    """The store answers, but the object under `key` is not what it should be, and reading it again won't help.

    Whoever keeps the store may bring the object back from a backup or from the bucket's earlier versions.
    """

    reason = UNREADABLE
    retryable = False

    def __init__(self, key: str, why: str) -> None:
        self.key = key
        super().__init__(f"{key} in the store can't be read: {why}")


def read_record(store: ObjectStore, key: str, model: type[R]) -> R | None:
    """The record under this key, or None. Raises RecordUnreadable."""
    body = store.get(key)
    return None if body is None else read_as(key, body, model.model_validate_json)


def read_there(store: ObjectStore, key: str, read: Callable[[bytes], T]) -> T:
    """What `read` makes of an object that must be there. Raises RecordUnreadable, also where it is missing."""
    body = store.get(key)
    if body is None:
        raise missing(key)
    return read_as(key, body, read)


def missing(key: str) -> RecordUnreadable:
    """The error of an object that must be there, and is not."""
    return RecordUnreadable(key, "it is missing")


def read_as(key: str, body: bytes, read: Callable[[bytes], T]) -> T:
    """What `read` makes of the object's bytes. Raises RecordUnreadable."""
    try:
        return read(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise RecordUnreadable(key, ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))) from error
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, Malformed) as error:
        raise RecordUnreadable(key, f"{type(error).__name__}: {error}") from error


def numbered(keys: Iterable[str]) -> dict[int, str]:
    """Number to key of the objects that are named by a number: 7 for `actions/ID/parts/0007.json`. Other files are not ours."""
    names = ((key.rpartition("/")[2].removesuffix(".json"), key) for key in keys)
    return {int(name): key for name, key in names if name.isascii() and name.isdigit()}
