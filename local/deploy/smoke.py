"""A dry run for the whole site, sent through everything: published, taken, planned, answered. Changes no node.

A new deployment has no committed revision and refuses: the refusal came all the way back, which is what is tested.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ulid import ULID

from local.deploy.tools import CannotDeploy, Tools
from shared.domain.names import UPDATE_SITE
from shared.domain.notices import REQUEST_REFUSED

SMOKE_SECONDS = 240
"""For the answer: fresh grants take a minute or two until the first delivery is let through."""


@dataclass(frozen=True)
class Smoke:
    """The topics that are asked and listened to, by the names that the documentation uses."""

    tools: Tools
    topics: Mapping[str, str]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def test(self) -> str:
        """Ask as everybody asks; what was answered. Raises CannotDeploy."""
        action = str(ULID())
        with self._listening(action) as answers:
            self._ask(self.topics["relabel-requests"], action)
            return self._answer(answers, action)

    def test_candidate(self, url: str, audience: str, push_account: str) -> str:
        """Ask one revision that gets no traffic yet, by a topic and a subscription of its own. Raises CannotDeploy."""
        action = str(ULID())
        topic = f"hullmark-candidate-{action.lower()}"
        with self._listening(action) as answers, self._made("topics", topic):
            pushed = (
                f"--topic={topic}", f"--push-endpoint={url}/projects/{self.tools.project}/topics/relabel-requests", "--ack-deadline=130",
                f"--push-auth-service-account={push_account}", f"--push-auth-token-audience={audience}",
            )  # fmt: skip
            with self._made("subscriptions", topic, *pushed):
                self._ask(topic, action)
                return self._answer(answers, action)

    @contextmanager
    def _listening(self, action: str) -> Iterator[str]:
        subscription = f"hullmark-smoke-{action.lower()}"
        with self._made("subscriptions", subscription, f"--topic={self.topics['notices']}"):
            yield subscription

    @contextmanager
    def _made(self, kind: str, name: str, *arguments: str) -> Iterator[None]:
        self._gcloud(kind, "create", name, *arguments, "--quiet")
        try:
            yield
        finally:
            self._gcloud(kind, "delete", name, "--quiet")

    def _ask(self, topic: str, action: str) -> None:
        body = json.dumps({"action": action, "name": UPDATE_SITE, "dry_run": True, "requested_by": "smoke test"})
        # the attribute names the action in a refusal, too
        self._gcloud("topics", "publish", topic, f"--message={body}", f"--attribute=identity={action}")

    def _answer(self, subscription: str, action: str) -> str:
        end = self.clock() + SMOKE_SECONDS
        while self.clock() < end:
            # not data.decode(base64): bytes are nothing that gcloud can print as JSON
            pulled = self._gcloud("subscriptions", "pull", subscription, "--auto-ack", "--limit=50", "--format=json(message.data)")
            for received in json.loads(pulled or "[]"):
                notice = json.loads(base64.urlsafe_b64decode(received["message"]["data"]))  # the alphabet that gcloud prints
                if notice.get("subject") == action:
                    return said_by(notice)
            self.sleep(2)
        raise CannotDeploy(
            f"no answer came to the dry run {action} within {SMOKE_SECONDS} s. Look, in this order, at the log of hullmark-relabel-request"
            " (gcloud functions logs read) and the alert on oldest-unacked; or `make deploy` again, for fresh grants take a minute or two"
        )

    def _gcloud(self, kind: str, verb: str, name: str, *arguments: str) -> str:
        return self.tools.gcloud("pubsub", kind, verb, name, f"--project={self.tools.project}", *arguments)


def said_by(notice: dict[str, Any]) -> str:
    """One line about the notice that answered."""
    data = notice.get("data", {})
    if notice["type"] == REQUEST_REFUSED.type:
        causes = "; ".join(problem["message"] for problem in data.get("problems", []))
        return f"the request went through and was refused ({causes}). Commit documents next: hullmark documents stage, then commit"
    return f"dry run {data.get('result')}: {data.get('counts')}"
