"""What travels: numbers and ids that become keys of the store are what they claim to be, however a message is bent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.messages import DeadlineCheck, Delivery, Malformed, Message, NodeApply, PartResult, RelabelRequest, VersionCheck, VersionUpdate

ACTION = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
NODE = {"name": "n1", "uid": "u"}
SOUND: dict[type[Message], dict[str, Any]] = {
    NodeApply: {"action": ACTION, "part": 1, "revision": 1, "nodes": [NODE]},
    PartResult: {"action": ACTION, "part": 1, "revision": 1, "outcomes": []},
    RelabelRequest: {"action": ACTION, "target_nodes": ["n1"]},
    VersionUpdate: {"action": ACTION, "part": 1, "cluster": "garden-p/c", "updates": []},
    VersionCheck: {},
    DeadlineCheck: {},
}
WRONG: list[tuple[str, list[Any]]] = [
    ("action", ["", "x", "../../revisions/000001", ACTION.lower(), ACTION + "\n", ACTION + "/..", ACTION[:-1], 7]),
    ("retry_of", ["../x", ""]),
    ("part", [-1, -5, 257, 10**30, 1.5, "one"]),
    ("revision", [-1, 1_000_000, 10**30, "newest"]),
    ("nodes", [[NODE | {"name": name}] for name in ("", "..", "a/b", "../n1", "N1", "n1\n", "n" * 254)]),
]
CASES = [(model, field, value) for model in SOUND for field, values in WRONG if field in model.model_fields for value in values]


@pytest.mark.parametrize("model", SOUND, ids=lambda model: model.__name__)
def test_a_sound_message_is_read(model: type[Message]) -> None:
    assert isinstance(model.parse(json.dumps(SOUND[model]).encode()), model)


@pytest.mark.parametrize(("model", "field", "value"), CASES)
def test_a_number_or_id_that_none_has_is_refused_by_its_name(model: type[Message], field: str, value: Any) -> None:
    with pytest.raises(Malformed, match=f"not a {model.__name__}: {field}"):
        model.parse(json.dumps(SOUND[model] | {field: value}).encode())


@pytest.mark.parametrize("model", SOUND, ids=lambda model: model.__name__)
@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b'{"part":1' + b"0" * 5000 + b"}"])
def test_json_beyond_reading_is_malformed(model: type[Message], body: bytes) -> None:
    with pytest.raises(Malformed):
        model.parse(body)


@pytest.mark.parametrize("wrong", [{"attributes": ["a"]}, {"attributes": "a"}, {"publishTime": "soon"}, {"data": "%%%"}, {"data": 7}])
def test_an_envelope_that_pubsub_would_not_write_is_malformed(wrong: dict[str, Any]) -> None:
    from cloudevents.http import CloudEvent

    event = CloudEvent({"type": "t", "source": "//pubsub/projects/p/topics/results", "id": "1"}, {"message": {"messageId": "1"} | wrong})
    with pytest.raises(Malformed):
        Delivery.from_event(event)
