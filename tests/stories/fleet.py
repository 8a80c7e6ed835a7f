"""A fleet to tell stories with: documents, a simulated cluster, and the functions behind an embedded bus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import yaml
from ulid import ULID

from local.cloud.embedded import Cloud
from shared.adapters.simulated import Simulated
from shared.domain.actions import ActionOutcome
from shared.domain.documents.reading import Source
from shared.domain.nodes import Node
from shared.messages import Notice, Outgoing, RelabelRequest
from shared.ports import BusError
from shared.world import Settings

START = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


class Fleet:
    """One store, one cluster, one cloud. Time stands still unless it is moved; waiting for a redelivery takes no time."""

    def __init__(self, **settings: Any) -> None:
        self.now = START
        self._waited = 0.0
        settings = {"store": "memory:", "cluster": "simulated:unused"} | settings
        self.cloud = Cloud(Settings(**settings), workers=1, monotonic=lambda: self._waited, sleep=self._wait)
        self.world = self.cloud.world
        self.world.clock = lambda: self.now
        self.cluster = Simulated(self.world.store, "default", owner=self.world.settings.field_managers)
        self.world.open_cluster = lambda _access, _name: self.cluster

    def _wait(self, seconds: float) -> None:
        self._waited += seconds

    # the operator

    def commits(self, *documents: Mapping[str, Any], adopted: bool = True) -> int:
        """Stage and commit these documents in place of what was there."""
        text = yaml.safe_dump_all(documents)
        self.world.revisions.stage("site", [Source("site.yaml", text.encode())], "an operator", self.now)
        revision, _ = self.world.revisions.commit("an operator", self.now)
        if adopted:
            self.world.revisions.tag(revision.number, "site-action-success", "an operator", self.now)
            self.releases(revision.number)
        return revision.number

    def releases(self, revision: int, *names: str) -> None:
        """Release a revision to these nodes, none named means all, without an action that brings it there."""
        chain, since = self.world.releases, self.world.releases.head("default").k
        if names:
            chain.to_names("default", "", revision, names, since=since, by="an operator", at=self.now)
        else:
            chain.to_all("default", "", revision, since=since, by="an operator", at=self.now)

    def declares(self, labels: Mapping[str, Mapping[str, str]], *, adopted: bool = True, **spec: Any) -> int:
        """A policy for each of these nodes."""
        return self.commits(*(a_policy(name, {"names": [name]}, wanted, **spec) for name, wanted in labels.items()), adopted=adopted)

    def sends(self, **request: Any) -> str:
        """Publish a RelabelRequest; the action's id."""
        message = RelabelRequest(**({"action": str(ULID()), "requested_by": "an operator"} | request))
        self.cloud.publish(RelabelRequest.TOPIC, [message.outgoing()])
        assert message.action
        return message.action

    def relabels(self, *names: str, **request: Any) -> str:
        """Ask for these nodes, none named means all, and see it through."""
        which = {"target_nodes": list(names)} if names else {"name": "update_site"}
        action = self.sends(**(which | request))
        self.cloud.drain()
        return action

    # the cluster

    def has_nodes(self, **nodes: Mapping[str, str]) -> None:
        """Nodes with these labels, held by the kubelet; they are Ready."""
        for name, labels in nodes.items():
            self.cluster.create(name, labels, ready=True)

    def node(self, name: str) -> Node:
        """A node that must be there."""
        node = self.cluster.node(name)
        assert node is not None, f"no node {name}"
        return node

    def labels(self, name: str) -> dict[str, str]:
        """A node's labels."""
        return dict(self.node(name).labels)

    # what came of it

    def ended(self, action: str) -> ActionOutcome:
        """How an action ended; it must have."""
        outcome = self.world.actions.outcome(action)
        assert outcome is not None, f"action {action} has not ended"
        return outcome

    def outcome(self, action: str) -> dict[str, str]:
        """Node to outcome."""
        ended = self.ended(action)
        return dict.fromkeys(ended.unchanged, "unchanged") | {told.subject: told.outcome for told in ended.outcomes}

    def loses_the_first_notice(self) -> list[str]:
        """The bus takes every message but the first notice; the list holds its topic once it was lost."""
        publish, lost = self.world.bus.publish, list[str]()

        def lose_it(topic: str, messages: Sequence[Outgoing]) -> None:
            if topic == Notice.TOPIC and not lost:
                lost.append(topic)
                raise BusError("the bus is away")
            publish(topic, messages)

        self.world.bus.publish = lose_it  # type: ignore[method-assign]
        return lost

    def notices(self, kind: str) -> list[dict[str, Any]]:
        """The data of the notices of this kind, `action.finished` say."""
        return [notice.data for notice in self.cloud.notices if notice.type == f"dev.hullmark.{kind}.v1"]


def a_policy(name: str, nodes: Mapping[str, Any], labels: Mapping[str, str], **spec: Any) -> dict[str, Any]:
    """A NodeLabelPolicy."""
    return {
        "apiVersion": "hullmark.dev/v1",
        "kind": "NodeLabelPolicy",
        "metadata": {"name": name},
        "spec": {"nodes": dict(nodes), "labels": dict(labels), **spec},
    }
