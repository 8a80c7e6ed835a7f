"""Where in a document something stands."""

from __future__ import annotations

import re

Path = tuple[str | int, ...]
"""`("spec", "labels", "rack")`; the empty path is the document itself."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$-]+")


def path_text(path: Path) -> str:
    """A path as people read it: `spec.labels[example.com/rack]`, `spec.pairs[0].primary`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return text
