"""Records in the store: JSON objects written once, read back as the model that wrote them, numbered by their names."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError

from shared.domain.actions import Record
from shared.ports import ObjectStore, StoreError

R = TypeVar("R", bound=Record)


def read_record(store: ObjectStore, key: str, model: type[R]) -> R | None:
    """The record under this key, or None. Raises StoreError, naming the key, for one that is not whole."""
    body = store.get(key)
    if body is None:
        return None
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise StoreError(f"{key} in the store can't be read as {model.__name__}: {error.errors()[0]['msg']}") from error


def number_of(key: str) -> int:
    """The number that an object is named by: 7 for `actions/ID/parts/0007.json`."""
    return int(key.rpartition("/")[2].removesuffix(".json"))
