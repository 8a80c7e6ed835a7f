"""Fields of a Shoot that a newer Kubernetes version forbids: they go in the same write that crosses it (docs/versions.md §6). Pure.

A garden refuses the update otherwise. Its own maintenance takes the same fields off, where it is not Hullmark that updates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shared.domain.versions.semver import InvalidVersion, parse

Path = tuple[str | int, ...]
EACH = "*"
"""Stands for every item of a list."""
SECRET_BINDING, CREDENTIALS_BINDING = "secretBindingName", "credentialsBindingName"
BINDINGS_FROM = (1, 34)
"""From this version on a Shoot names a CredentialsBinding, and no SecretBinding."""


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A field below `spec` that no Shoot may have from a minor on."""

    since: tuple[int, int]
    path: tuple[str, ...]
    why: str


FORBIDDEN = (
    Forbidden(
        (1, 33),
        ("kubernetes", "kubeControllerManager", "podEvictionTimeout"),
        "kubeAPIServer has default…TolerationSeconds instead",
    ),
    Forbidden((1, 33), ("kubernetes", "clusterAutoscaler", "maxEmptyBulkDelete"), "there is maxScaleDownParallelism instead"),
    Forbidden((1, 35), ("kubernetes", "kubeAPIServer", "enableAnonymousAuthentication"), "a garden does not support it any more"),
    Forbidden((1, 35), ("kubernetes", "kubeAPIServer", "watchCacheSizes", "default"), "the API server pays no heed to it"),
    Forbidden((1, 35), ("kubernetes", "kubeScheduler", "kubeMaxPDVols"), "the scheduler pays no heed to it"),
    Forbidden((1, 35), ("addons",), "there are no addons any more"),
    Forbidden((1, 35), ("dns", "providers", EACH, "secretName"), "a garden does not support it any more"),
)


@dataclass(frozen=True, slots=True)
class Removal:
    """A field that has to go: its path in the Shoot, and what is said about it."""

    path: Path
    message: str


def removals(shoot: Mapping[str, Any], current: str, to: str) -> list[Removal]:
    """What a Shoot may not keep when its control plane goes from one version to another."""
    found = []
    for field in FORBIDDEN:
        if crosses(current, to, field.since):
            for path in _present(shoot.get("spec"), field.path):
                text = f"spec.{'.'.join(map(str, path))} was removed, which Kubernetes {_text(field.since)} and later forbid: {field.why}"
                found.append(Removal(("spec", *path), text))
    return found


def binding_to_migrate(shoot: Mapping[str, Any], current: str, to: str) -> str:
    """The SecretBinding that a Shoot names alone and may name no longer; empty where there is none."""
    spec = shoot.get("spec") or {}
    return "" if spec.get(CREDENTIALS_BINDING) or not crosses(current, to, BINDINGS_FROM) else str(spec.get(SECRET_BINDING) or "")


def crosses(current: str, to: str, minor: tuple[int, int]) -> bool:
    """Whether an update leads from before a minor to it or beyond."""
    try:
        old, new = parse(current), parse(to)
    except InvalidVersion:
        return False
    return (old.major, old.minor) < minor <= (new.major, new.minor)


def pointer(path: Path) -> str:
    """A path as a JSON Pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _text(minor: tuple[int, int]) -> str:
    return ".".join(map(str, minor))


def _present(value: Any, path: tuple[str, ...]) -> Iterator[Path]:
    """Every place below a value that this path means and that is there."""
    if not path:
        yield ()
        return
    first, rest = path[0], path[1:]
    if first == EACH:
        below = enumerate(value) if isinstance(value, list) else ()
        yield from ((number, *further) for number, item in below for further in _present(item, rest))
    elif isinstance(value, Mapping) and first in value:
        yield from ((first, *further) for further in _present(value[first], rest))
