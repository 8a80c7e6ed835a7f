"""A store that counts what it is asked."""

from __future__ import annotations

from collections import Counter
from typing import Any

from shared.ports import ObjectStore


class Counting:
    """Another one does the work. `calls`: how often each method was called; `asked`: each call with its key or prefix."""

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner
        self.calls: Counter[str] = Counter()
        self.asked: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            self.asked.append((name, args[0]))
            return method(*args, **kwargs)

        return call

    def clear(self) -> None:
        """Count from here on."""
        self.calls.clear()
        self.asked.clear()

    def reads(self, prefix: str) -> int:
        """How many objects below a prefix were read, those that are not there too."""
        return sum(name == "get" and key.startswith(prefix) for name, key in self.asked)
