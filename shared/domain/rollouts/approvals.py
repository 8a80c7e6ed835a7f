"""What an approval of a rollout lets happen, and whether that is still what somebody was shown. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

from shared.domain.labels.impact import Impact, in_words
from shared.domain.rollouts.progress import Progress, When

COUNTED = frozenset({"removals", "takeovers", "changes", "removed", "added", "changed", "taken", "overrides"})
"""What an approval is bound to. How many nodes the cluster has, and which are named as examples, is not."""


def let_open(rollout: Progress, stage: int, when: When) -> list[int]:
    """The stages that open after this approval before another one is needed."""
    opened: list[int] = []
    for number in range(stage if when == "before" else stage + 1, len(rollout.stages)):
        about = rollout.stages[number]
        if not rollout.size(number):
            continue
        if about.before and (number, when) != (stage, "before") and not rollout.approved(number, "before"):
            break
        opened.append(number)
        if about.after and not rollout.approved(number, "after"):
            break
    return opened


def digest_of(rollout: str, stage: int, when: When, impacts: Mapping[str, Impact]) -> str:
    """What an approval names: the same as long as it would let the same happen. It fits no other stage and no other rollout."""
    counts = {name: _counts(impact) for name, impact in sorted(impacts.items())}
    return hashlib.sha256(json.dumps([rollout, stage, when, counts], sort_keys=True).encode()).hexdigest()[:16]


def _counts(impact: Impact) -> dict[str, object]:
    return impact.model_dump(include=set(COUNTED)) | {"unseen": bool(impact.unseen)}


def lines(impacts: Mapping[str, Impact]) -> list[str]:
    """The impact for people, a line for each cluster."""
    return [
        f"cluster {name} could not be looked at: {impact.unseen}" if impact.unseen else in_words(impact) for name, impact in impacts.items()
    ]


def differences(shown: Mapping[str, Impact], now: Mapping[str, Impact]) -> str:
    """What changed since the impact was shown, in words."""
    return "; ".join(_differences(shown, now))


def _differences(shown: Mapping[str, Impact], now: Mapping[str, Impact]) -> Iterator[str]:
    for name in sorted({*shown, *now}):
        before, after = shown.get(name), now.get(name)
        if before and after and _counts(before) == _counts(after):
            continue
        was, is_ = (_said(impact) for impact in (before, after))
        yield f"cluster {name}: shown were {was}, now {is_}"


def _said(impact: Impact | None) -> str:
    if impact is None:
        return "no nodes"
    return "none, it does not answer" if impact.unseen else in_words(impact).partition(": ")[2].rstrip("; ")
