"""What every model of a document is: fields in camelCase, an unknown field an error, no value converted."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


def field_name(name: str) -> str:
    """What a field is called in a document: `from_` is `from`, because Python keeps that word for itself."""
    return to_camel(name.rstrip("_"))


class StrictModel(BaseModel):
    """Base of the models that people's documents are read into."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=field_name, defer_build=True)

    def to_json(self) -> dict[str, Any]:
        """What the document says, for a revision to keep."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
