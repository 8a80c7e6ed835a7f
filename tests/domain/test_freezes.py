"""What a Freeze document may say, and when it holds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from shared.domain.documents.reading import Source
from shared.domain.holds import frozen
from shared.domain.site import check, load


def document(**spec: Any) -> Source:
    body = {"from": "2026-12-20T18:00:00+01:00", "until": "2027-01-04T06:00:00+01:00", "reason": "year end"} | spec
    freeze = {"apiVersion": "hullmark.dev/v1", "kind": "Freeze", "metadata": {"name": "f"}, "spec": body}
    return Source("f.yaml", yaml.safe_dump(freeze).encode())


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"from": "tomorrow"}, "'tomorrow' is no RFC 3339 time"),
        ({"from": "2026-12-20T18:00:00"}, "`from` has no offset"),
        ({"from": "2026-12-20T18:00:00", "timeZone": "Europe/Osloo"}, "no IANA time zone"),
        ({"until": "2026-12-20T17:59:59+01:00"}, "`until` is not after `from`"),
        ({"reason": ""}, "reason"),
        ({"clusters": {}}, "names no criterion"),
        ({"change": "pods"}, "labels"),
        ({"unitl": "2027-01-04T06:00:00+01:00"}, "unitl"),
    ],
)
def test_what_can_not_be_meant_is_refused_with_the_place(spec: dict[str, Any], words: str) -> None:
    problems, _ = check([document(**spec)])
    assert any(words in f"{problem.path} {problem.message}" for problem in problems), problems
    assert {problem.file for problem in problems} == {"f.yaml"}


@pytest.mark.parametrize("written", [{}, {"from": "2026-12-20T18:00:00", "until": "2027-01-04T06:00:00", "timeZone": "Europe/Oslo"}])
def test_a_freeze_holds_from_its_first_moment_to_before_its_last_in_its_own_zone(written: dict[str, Any]) -> None:
    freezes = load([document(**written)]).policies.freezes

    def holds(*moment: int) -> bool:
        return frozen(freezes, "c", {}, "labels", datetime(*moment, tzinfo=UTC)) is not None  # type: ignore[arg-type,misc]

    assert [holds(2026, 12, 20, 16, 59), holds(2026, 12, 20, 17), holds(2027, 1, 4, 4, 59), holds(2027, 1, 4, 5)] == [
        False,
        True,
        True,
        False,
    ]


def test_a_freeze_is_for_the_clusters_and_the_change_that_it_names() -> None:
    freezes = load([document(clusters={"matchLabels": {"env": "prod"}}, change="versions")]).policies.freezes
    now = datetime(2026, 12, 24, tzinfo=UTC)
    assert frozen(freezes, "c", {"env": "prod"}, "versions", now)
    assert not frozen(freezes, "c", {"env": "dev"}, "versions", now)
    assert not frozen(freezes, "c", {"env": "prod"}, "labels", now)


def test_of_several_freezes_the_one_that_ends_last_is_told() -> None:
    sources = [document(), document(until="2027-02-01T00:00:00Z")]
    texts = [source.data.decode().replace("name: f", f"name: f{number}") for number, source in enumerate(sources)]
    freezes = load([Source("f.yaml", "---\n".join(texts).encode())]).policies.freezes
    hold = frozen(freezes, "c", {}, "labels", datetime(2026, 12, 24, tzinfo=UTC))
    assert hold is not None
    assert "Freeze/f1" in hold.message
