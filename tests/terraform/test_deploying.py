"""`make deploy` and its kin with the real Terraform and the provider's stand-in, and the real gcloud: on the Pub/Sub emulator, on a
stand-in for Cloud Storage that Terraform keeps its state in, too, and on one for Google's other APIs.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
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
from tests.terraform.google import RUN, Google, Service
from tests.terraform.running import REGION, Planned, Terraform, copied
from tests.terraform.storage import Storage

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200)]


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


def relabelling(project: str, asked: list[str]) -> Callable[[BaseHTTPRequestHandler], None]:
    """relabel_request behind an address; `asked` gets the paths."""

    def push(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        message = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))["message"]
        take(project, message["data"], message["attributes"], message["messageId"])
        handler.send_response(204)
        handler.end_headers()

    return push


@dataclass
class Place:
    """One project, and clones of the repository that deploy to it."""

    google: Google
    folder: Path
    storage: Storage
    said: list[str]

    @property
    def project(self) -> str:
        return self.google.project

    def clone(self, name: str, **variables: str) -> Deployment:
        folder = self.folder / name
        folder.mkdir()
        return Deployment(self.project, REGION, copied(folder, backend=True), dict(variables), say=self.said.append)

    @property
    def state(self) -> str:
        return f"{self.project}-hullmark-state"


@pytest.fixture
def place(terraform: Terraform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    require_real("gcloud", shutil.which("gcloud"), "https://cloud.google.com/sdk/docs/install")
    (tmp_path / "token").write_text("nobody looks at it")
    settings = {
        **terraform.environment,
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        "CLOUDSDK_CORE_ACCOUNT": "me@example.com",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(tmp_path / "token"),
        "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "token"),
        "GOOGLE_OAUTH_ACCESS_TOKEN": "nobody looks at it",
        "no_proxy": "127.0.0.1,localhost",
    }
    with real_emulator() as emulator, Storage().running() as storage, Google(new_project()).running() as google:
        settings |= {
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB": f"http://{emulator.host}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{storage.url}/storage/v1/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": google.url,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": google.url,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDFUNCTIONS": google.url,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_RUN": RUN,
            "http_proxy": google.url,
            "GOOGLE_BACKEND_STORAGE_CUSTOM_ENDPOINT": f"{storage.url}/storage/v1/",
        }
        with answering(google.project, monkeypatch):
            for name, value in settings.items():
                monkeypatch.setenv(name, value)
            yield Place(google, tmp_path, storage, [])


def test_two_clones_are_one_deployment_and_destroy_leaves_the_store(place: Place) -> None:
    mine, yours = place.clone("mine"), place.clone("yours")
    mine.check()
    assert mine.plan()
    assert place.storage.buckets == {}, "a plan makes nothing"
    assert not (mine.root / OVERRIDE).exists()

    mine.deploy()
    assert any(line.startswith("smoke test: the request went through and was refused (") for line in place.said)
    assert place.storage.objects(place.state) == ["hullmark/default.tfstate"]
    assert place.storage.settings[place.state]["versioning"] == {"enabled": True}
    assert not yours.plan(), "what I deployed would change again from your clone"

    yours.destroy()
    assert yours.state.resources() == []
    bucket = f"{place.project}-hullmark"
    assert any(f"left: bucket gs://{bucket}" in line for line in place.said)

    place.storage.buckets[bucket] = {}
    mine.deploy()
    assert f"taking up the store gs://{bucket} again" in place.said
    assert STORE in mine.state.resources()


def test_a_state_on_a_laptop_moves_into_the_bucket(place: Place, terraform: Terraform) -> None:
    mine = place.clone("mine")
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
    assert not place.clone("yours").plan()

    (mine.root / "terraform.tfstate").write_text('{"version": 4, "resources": [{"mode": "managed"}]}')
    with pytest.raises(CannotDeploy, match="two states"):
        mine.state.open()


def test_functions_that_run_without_a_state_are_not_deployed_on_top_of(place: Place) -> None:
    place.google.functions = ["hullmark-api", "hullmark-node-apply", "of-somebody-else"]
    for attempt in (Deployment.plan, Deployment.deploy):
        with pytest.raises(CannotDeploy, match=r"hullmark-api and 1 more functions run in .*, but the state .* is empty"):
            attempt(place.clone(attempt.__name__))
    assert place.storage.buckets == {}
    place.clone("another", name_prefix="green-").state.must_know_what_runs("green-", [])


def test_a_plan_that_would_delete_the_store_is_refused(place: Place) -> None:
    place.clone("mine").deploy()
    with pytest.raises(CannotDeploy, match="this plan would delete the store"):
        place.clone("yours", store_bucket="another-one").deploy()


def test_a_second_deployment_in_the_project_has_a_state_and_a_store_of_its_own(place: Place) -> None:
    green = place.clone("green", name_prefix="green-")
    green.state.make()
    green.state.open()
    green._archive()
    with green._plan_of([]) as plan:
        planned = Planned(plan.shown)
    assert green.state.folder == f"gs://{place.state}/green"
    assert planned.all("storage_bucket", "store").popitem()[1]["name"] == f"{place.project}-green"
    assert {topic["name"].partition("-")[0] for topic in planned.each("pubsub_topic")} == {"green"}


def test_a_candidate_is_asked_by_a_topic_of_its_own(place: Place) -> None:
    """Pub/Sub pushes to the address of one revision, which nothing else knows."""
    asked: list[str] = []
    with serving(relabelling(place.project, asked)) as url:
        smoke = Smoke(place.clone("mine").tools, {"notices": "notices", "relabel-requests": "nobody-asks-here"})
        said = smoke.test_candidate(url, "https://service.run.app", f"push@{place.project}.iam.gserviceaccount.com")
    assert said.startswith("the request went through")
    assert set(asked) == {f"/projects/{place.project}/topics/relabel-requests"}
    left = Administration(place.project).names()
    assert [name for name in left if "candidate" in name or "smoke" in name] == []


CHANGED = re.compile(r'cloudfunctions2_function\.steps\["(\w+)"\]: Modifications complete')


def test_new_revisions_get_traffic_when_they_have_answered_and_give_it_back(place: Place) -> None:
    place.clone("mine").deploy()
    place.google.services = {f"hullmark-{step}": Service() for step in ("api", "relabel-request")}
    served: set[str] = set()

    def heard(line: str) -> None:
        if found := CHANGED.search(line):
            name = f"hullmark-{found[1].replace('_', '-')}"
            if name in place.google.services:
                place.google.revise(name)
                served.add(place.google.services[name].serving(name))
        place.said.append(line)

    asked: list[str] = []
    with serving(relabelling(place.project, asked)) as url:
        place.google.candidates_at = url
        yours = place.clone("yours", runtime="python313")
        yours.say = yours.tools.say = heard
        yours.deploy()
    assert served == {"hullmark-api-00001", "hullmark-relabel-request-00001"}, "what was new got no traffic while it was made"
    assert asked, "and was tried before it got any"
    services = place.google.services
    assert {service.serving(name) for name, service in services.items()} == {"hullmark-api-00002", "hullmark-relabel-request-00002"}
    assert {json.dumps(service.traffic) for service in services.values()} == {'[{"latestRevision": true, "percent": 100}]'}

    place.clone("ours").rollback()
    assert {service.serving(name) for name, service in services.items()} == {"hullmark-api-00001", "hullmark-relabel-request-00001"}
