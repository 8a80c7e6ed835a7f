"""`hullmark reasons`: reason codes, from the table that the code is held to."""

from __future__ import annotations

from tests.cli.conftest import Hullmark


def test_a_code_is_explained_however_it_is_spelt(hullmark: Hullmark) -> None:
    ran = hullmark("reasons", "policyconflict")
    assert ran.code == 0
    assert "want different values for one key" in ran.out
    assert "give one of them a higher priority" in ran.out


def test_every_code_is_listed_as_json(hullmark: Hullmark) -> None:
    listed = hullmark("reasons", "-o", "json").json["reasons"]
    assert {"NodeNotFound", "Duplicate", "OutsideWindow", "KubeconfigMissing"} <= {entry["reason"] for entry in listed}
    assert all(entry["meaning"] and entry["saidBy"] for entry in listed)


def test_a_code_that_there_is_not_names_its_neighbours(hullmark: Hullmark) -> None:
    ran = hullmark("reasons", "PolicyConflit")
    assert ran.code == 1
    assert "close to it: PolicyConflict" in ran.err
