"""Which cluster or profile is meant: its fleet, and its name there. Two gardens may both have a `garden-dev/api`."""

from __future__ import annotations

DOCUMENTS = ""
"""The fleet of the Shoots that are documents. Every other fleet is named like the Cluster document that leads to it."""


def full_name(fleet: str, name: str) -> str:
    """`FLEET:NAME`; of the documents, the name alone. Neither fleets nor names hold a colon, so that the two never meet."""
    return f"{fleet}:{name}" if fleet else name
