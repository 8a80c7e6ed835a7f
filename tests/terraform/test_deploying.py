"""`make deploy` and `make destroy` with the real Terraform, the provider's stand-in, and the real gcloud on the Pub/Sub emulator.

What gcloud would ask of Google's other APIs is answered here with a yes.
"""

from __future__ import annotations

import base64
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cloudevents.http import CloudEvent

from functions.relabel_request.main import relabel_request
from local import steps
from local.deploy.deployment import STORE, Deployment
from shared import wiring
from shared.adapters import pubsub
from shared.adapters.pubsub import Administration, Subscription
from shared.world import Settings
from tests.conftest import require_real
from tests.pubsub import new_project, real_emulator
from tests.terraform.running import REGION, Terraform, copied

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

GCLOUD = """\
#!{python}
import os, pathlib, sys
here, asked = pathlib.Path({folder!r}), " ".join(sys.argv[1:])
if asked.startswith("pubsub "):
    os.execv({gcloud!r}, [{gcloud!r}, *sys.argv[1:]])
if asked.startswith("config get-value account"):
    print("me@example.com")
if asked.startswith("services list"):
    print("cloudresourcemanager.googleapis.com")
if asked.startswith("storage buckets describe"):
    sys.exit(0 if (here / "bucket-is-there").exists() else 1)
"""


@contextmanager
def answering(project: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """relabel_request as it is deployed for the first time: it takes requests off its topic, and no document was ever committed."""
    topic, subscription = "relabel-requests", "relabel-requests--relabel_request"
    administration = Administration(project)
    administration.create_topics(steps.load().topics)
    administration.create_subscription(Subscription(subscription, topic, ack_deadline=60))
    world = wiring.build(Settings(store="memory:", bus="pubsub", project=project), pubsub.open_bus(project))
    monkeypatch.setattr(wiring, "world", lambda: world)
    client, path, over = pubsub._gapic("subscriber"), f"projects/{project}/subscriptions/{subscription}", threading.Event()

    def take() -> None:
        while not over.is_set():
            for received in client.pull(subscription=path, max_messages=1).received_messages:
                client.acknowledge(subscription=path, ack_ids=[received.ack_id])
                message = {
                    "data": base64.b64encode(received.message.data).decode(),
                    "attributes": dict(received.message.attributes),
                    "messageId": received.message.message_id,
                }
                source = f"//pubsub.googleapis.com/projects/{project}/topics/{topic}"
                relabel_request(
                    CloudEvent({"type": "google.cloud.pubsub.topic.v1.messagePublished", "source": source}, {"message": message})
                )

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def deployment(terraform: Terraform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]) -> Iterator[Deployment]:
    real = shutil.which("gcloud")
    require_real("gcloud", real, "https://cloud.google.com/sdk/docs/install")
    gcloud = tmp_path / "bin" / "gcloud"
    gcloud.parent.mkdir()
    gcloud.write_text(GCLOUD.format(python=sys.executable, folder=str(tmp_path), gcloud=real))
    gcloud.chmod(0o755)
    for name, value in terraform.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{gcloud.parent}:{terraform.environment['PATH']}")
    with real_emulator() as emulator:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB", f"http://{emulator.host}/")
        monkeypatch.setenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true")
        monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
        project = new_project()
        with answering(project, monkeypatch):
            yield Deployment(project, REGION, copied(tmp_path), say=said.append)


def test_what_is_deployed_can_be_destroyed_but_for_the_store_and_deployed_again(
    deployment: Deployment, terraform: Terraform, tmp_path: Path, said: list[str]
) -> None:
    deployment.check()
    assert deployment.plan()
    deployment.deploy()
    assert any(line.startswith("smoke test: the request went through and was refused (") for line in said)
    assert STORE in terraform.run(deployment.root, "state", "list").split()
    assert not deployment.plan(), "what was just applied would change again"

    deployment.destroy()
    assert terraform.run(deployment.root, "state", "list").split() == []
    bucket = f"{deployment.project}-hullmark"
    assert any(f"left: bucket gs://{bucket}" in line for line in said)

    (tmp_path / "bucket-is-there").touch()
    deployment.deploy()
    assert f"taking up the store gs://{bucket} again" in said
    assert STORE in terraform.run(deployment.root, "state", "list").split()
