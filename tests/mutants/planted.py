"""The planted bugs (planted.yaml): each is one change of the code, and the tests that must fail with it."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("planted.yaml")


class Planted(BaseModel):
    """One bug. `name` says what goes wrong for a person; `find` occurs exactly once in `file`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    file: str
    find: str
    replace: str
    tests: list[str] = Field(min_length=1)

    def problem(self, root: Path = ROOT) -> str:
        """Why it can't be planted; empty where it can."""
        path = root / self.file
        if not path.is_file():
            return f"there is no {self.file}"
        count = path.read_text().count(self.find)
        return "" if count == 1 else f"the snippet occurs {count} times in {self.file}, not once"

    def changed(self, root: Path = ROOT) -> str:
        """The file with the bug in it."""
        return (root / self.file).read_text().replace(self.find, self.replace)


def planted() -> list[Planted]:
    """The whole list."""
    return TypeAdapter(list[Planted]).validate_python(yaml.safe_load(LIST.read_text()))
