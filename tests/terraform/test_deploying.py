"""`make deploy` and its kin with the real Terraform and the provider's stand-in, and the real gcloud: on the Pub/Sub emulator, and on a
stand-in for Cloud Storage that Terraform keeps its state in, too. What gcloud would ask of Google's other APIs is answered here.
"""

from __future__ import annotations

import base64
import json
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from cloudevents.http import CloudEvent

from functions.relabel_request.main import relabel_request
from local import steps
from local.deploy.deployment import Deployment
from local.deploy.smoke import Smoke
from local.deploy.state import OVERRIDE, STORE
from local.deploy.tools import CannotDeploy
from shared import wiring
from shared.adapters import pubsub
from shared.adapters.pubsub import Administration, Subscription
from shared.world import Settings
from tests.conftest import require_real
from tests.pubsub import new_project, real_emulator
from tests.terraform.answering import serving
from tests.terraform.running import REGION, Planned, Terraform, copied
from tests.terraform.storage import Storage

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

GCLOUD = """\
#!{python}
import os, pathlib, sys
here, asked = pathlib.Path({folder!r}), " ".join(sys.argv[1:])
if asked.startswith(("pubsub ", "storage ")):
    os.execv({gcloud!r}, [{gcloud!r}, *sys.argv[1:]])
if asked.startswith("config get-value account"):
    print("me@example.com")
if asked.startswith("services list"):
    print("cloudresourcemanager.googleapis.com cloudfunctions.googleapis.com")
if asked.startswith("functions list") and (here / "functions-run").exists():
    print("hullmark-api hullmark-node-apply of-somebody-else")
if asked.startswith("run services list"):
    print("[]")
"""


def take(project: str, data: str, attributes: dict[str, str], message_id: str) -> None:
    """What functions-framework does with a push: relabel_request is called."""
    source = f"//pubsub.googleapis.com/projects/{project}/topics/relabel-requests"
    message = {"data": data, "attributes": attributes, "messageId": message_id}
    about = {"type": "google.cloud.pubsub.topic.v1.messagePublished", "source": source}
    relabel_request(CloudEvent(about, {"message": message}))


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

    def pull() -> None:
        while not over.is_set():
            for received in client.pull(subscription=path, max_messages=1).received_messages:
                client.acknowledge(subscription=path, ack_ids=[received.ack_id])
                message = received.message
                take(project, base64.b64encode(message.data).decode(), dict(message.attributes), message.message_id)

    thread = threading.Thread(target=pull, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


@dataclass
class Google:
    """One project, and clones of the repository that deploy to it."""

    project: str
    folder: Path
    storage: Storage
    said: list[str]

    def clone(self, name: str, **variables: str) -> Deployment:
        folder = self.folder / name
        folder.mkdir()
        return Deployment(self.project, REGION, copied(folder, backend=True), dict(variables), say=self.said.append)

    @property
    def state(self) -> str:
        return f"{self.project}-hullmark-state"


@pytest.fixture
def google(terraform: Terraform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    real = shutil.which("gcloud")
    require_real("gcloud", real, "https://cloud.google.com/sdk/docs/install")
    gcloud = tmp_path / "bin" / "gcloud"
    gcloud.parent.mkdir()
    gcloud.write_text(GCLOUD.format(python=sys.executable, folder=str(tmp_path), gcloud=real))
    gcloud.chmod(0o755)
    for name, value in terraform.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{gcloud.parent}:{terraform.environment['PATH']}")
    with real_emulator() as emulator, Storage().running() as storage:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB", f"http://{emulator.host}/")
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE", f"{storage.url}/storage/v1/")
        monkeypatch.setenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true")
        monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
        monkeypatch.setenv("GOOGLE_BACKEND_STORAGE_CUSTOM_ENDPOINT", f"{storage.url}/storage/v1/")
        monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "nobody looks at it")
        project = new_project()
        with answering(project, monkeypatch):
            yield Google(project, tmp_path, storage, [])


def test_two_clones_are_one_deployment_and_destroy_leaves_the_store(google: Google) -> None:
    mine, yours = google.clone("mine"), google.clone("yours")
    mine.check()
    assert mine.plan()
    assert google.storage.buckets == {}, "a plan makes nothing"
    assert not (mine.root / OVERRIDE).exists()

    mine.deploy()
    assert any(line.startswith("smoke test: the request went through and was refused (") for line in google.said)
    assert google.storage.objects(google.state) == ["hullmark/default.tfstate"]
    assert google.storage.settings[google.state]["versioning"] == {"enabled": True}
    assert not yours.plan(), "what I deployed would change again from your clone"

    yours.destroy()
    assert yours.state.resources() == []
    bucket = f"{google.project}-hullmark"
    assert any(f"left: bucket gs://{bucket}" in line for line in google.said)

    google.storage.buckets[bucket] = {}
    mine.deploy()
    assert f"taking up the store gs://{bucket} again" in google.said
    assert STORE in mine.state.resources()


def test_a_state_on_a_laptop_moves_into_the_bucket(google: Google, terraform: Terraform) -> None:
    mine = google.clone("mine")
    override = mine.root / OVERRIDE
    override.write_text('terraform {\n  backend "local" {}\n}\n')
    mine._archive()
    terraform.run(mine.root, "init", "-input=false")
    terraform.run(mine.root, "apply", "-input=false", "-auto-approve", *mine._given(None))
    override.unlink()
    shutil.rmtree(mine.root / ".terraform")  # as it was made before the backend was declared

    mine.state.make()
    mine.state.open()
    assert STORE in mine.state.resources()
    assert not google.clone("yours").plan()

    (mine.root / "terraform.tfstate").write_text('{"version": 4, "resources": [{"mode": "managed"}]}')
    with pytest.raises(CannotDeploy, match="two states"):
        mine.state.open()


def test_functions_that_run_without_a_state_are_not_deployed_on_top_of(google: Google) -> None:
    (google.folder / "functions-run").touch()
    for attempt in (Deployment.plan, Deployment.deploy):
        with pytest.raises(CannotDeploy, match=r"hullmark-api and 1 more functions run in .*, but the state .* is empty"):
            attempt(google.clone(attempt.__name__))
    assert google.storage.buckets == {}
    google.clone("another", name_prefix="green-").state.must_know_what_runs("green-", [])


def test_a_plan_that_would_delete_the_store_is_refused(google: Google) -> None:
    google.clone("mine").deploy()
    with pytest.raises(CannotDeploy, match="this plan would delete the store"):
        google.clone("yours", store_bucket="another-one").deploy()


def test_a_second_deployment_in_the_project_has_a_state_and_a_store_of_its_own(google: Google) -> None:
    green = google.clone("green", name_prefix="green-")
    green.state.make()
    green.state.open()
    green._archive()
    with green._plan_of([]) as plan:
        planned = Planned(plan.shown)
    assert green.state.folder == f"gs://{google.state}/green"
    assert planned.all("storage_bucket", "store").popitem()[1]["name"] == f"{google.project}-green"
    assert {topic["name"].partition("-")[0] for topic in planned.each("pubsub_topic")} == {"green"}


def test_a_candidate_is_asked_by_a_topic_of_its_own(google: Google) -> None:
    """Pub/Sub pushes to the address of one revision, which nothing else knows."""
    asked: list[str] = []

    def candidate(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        message = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))["message"]
        take(google.project, message["data"], message["attributes"], message["messageId"])
        handler.send_response(204)
        handler.end_headers()

    with serving(candidate) as url:
        smoke = Smoke(google.clone("mine").tools, {"notices": "notices", "relabel-requests": "nobody-asks-here"})
        said = smoke.test_candidate(url, "https://service.run.app", f"push@{google.project}.iam.gserviceaccount.com")
    assert said.startswith("the request went through")
    assert set(asked) == {f"/projects/{google.project}/topics/relabel-requests"}
    left = Administration(google.project).names()
    assert [name for name in left if "candidate" in name or "smoke" in name] == []
