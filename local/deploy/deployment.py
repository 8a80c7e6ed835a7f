"""`make plan`, `make deploy`, `make destroy`: the archive, Terraform, and a message through everything at the end.

What usually goes wrong is looked for before Terraform starts (tools, credentials, project, region) or read from what it says
(ADVICE): every error ends in what to do about it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from ulid import ULID

from local.deploy.archive import NotArchived, write
from local.steps import ROOT
from shared.domain.names import UPDATE_SITE
from shared.domain.notices import REQUEST_REFUSED

DEPLOYMENT = ROOT / "terraform" / "examples" / "deploy"
STORE = "module.hullmark.google_storage_bucket.store"
"""Where the example root keeps the one resource that outlives `destroy`."""
SMOKE_SECONDS = 240
"""For the smoke test's answer: fresh grants take a minute or two until the first delivery is let through."""
GCLOUD_SECONDS = 180
"""For one call of gcloud: a pull that finds nothing may wait for a minute and a half."""
INSTALL = {
    "terraform": "https://developer.hashicorp.com/terraform/install",
    "gcloud": "https://cloud.google.com/sdk/docs/install",
}
ADVICE = (
    (
        r"could not find default credentials|[Aa]pplication [Dd]efault [Cc]redentials|invalid_grant|oauth2: .*token",
        "Terraform has no valid credentials: gcloud auth application-default login",
    ),
    (
        r"SERVICE_DISABLED|has not been used in project|API .* is disabled|it is disabled",
        "a Google API is switched off: gcloud services enable cloudresourcemanager.googleapis.com serviceusage.googleapis.com"
        " --project={project} (Terraform switches on the others; with enable_apis=false somebody else must); wait a minute, deploy again",
    ),
    (
        r"service-\d+@gcp-sa-pubsub\S* does not exist",
        "Pub/Sub's own account is not there yet: gcloud beta services identity create --service=pubsub.googleapis.com --project={project}",
    ),
    (
        r"[Ii]nvalid (?:location|region)|[Ll]ocation \S+ is not found|not a valid location|UNSUPPORTED_LOCATION"
        r"|(?:[Ll]ocation|[Rr]egion) \S+ (?:is not|not) (?:valid|found|supported|available)",
        "region {region} does not have everything that is needed: gcloud functions regions list; gcloud scheduler locations list",
    ),
    (
        r"iam\.serviceAccounts\.actAs|iam\.serviceaccounts\.actAs",
        "you may not act as the service accounts that are made: you need roles/iam.serviceAccountUser on project {project}",
    ),
    (r"does not have storage\.buckets\.create|storage\.buckets\.create", "you need roles/storage.admin on project {project}"),
    (
        r"[Tt]he requested bucket name is not available|bucket name is already|Your previous request to create the named bucket",
        "the bucket's name is taken, somewhere in the world: choose one with store_bucket",
    ),
    (
        r"billing account|BILLING_DISABLED|[Bb]illing .* (?:disabled|not enabled)",
        "project {project} has no billing account: https://console.cloud.google.com/billing/linkedaccount?project={project}",
    ),
    (
        r"Build failed|build failed|FAILED_PRECONDITION: Build",
        "a function did not build; its log is behind the link above. Most often: the build account's grants are a minute old"
        " (deploy again), or the organisation allows no internet access to builds",
    ),
    (
        r"Cannot find metric(?:\(s\))? that match(?:es)? type",
        "a metric that was just made is not known to the alerts yet, for up to ten minutes: wait, and deploy again",
    ),
    (r"state lock|Error acquiring the state lock", "somebody else deploys now, or was cut off: terraform force-unlock ID, in {root}"),
    (
        r"PERMISSION_DENIED|Error 403|403 Forbidden|[Pp]ermission .* denied",
        "you ({account}) lack a right on project {project}; the message above names it. roles/owner has all of them; what is needed"
        " at least is in docs/deploy.md",
    ),
)
"""What Terraform or gcloud says → what to do. The first that matches counts."""


class CannotDeploy(Exception):
    """It did not work; the message says what to do."""


@dataclass
class Deployment:
    """One root module, one project, one region."""

    project: str
    region: str
    root: Path = DEPLOYMENT
    variables: dict[str, str] = field(default_factory=dict)
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _account: str = "unknown"

    def check(self) -> None:
        """Look for what is missing before anything is done. Raises CannotDeploy."""
        for tool, where in INSTALL.items():
            if not shutil.which(tool):
                raise CannotDeploy(f"{tool} is not on the PATH: {where}")
        self._account = self._gcloud("config", "get-value", "account", "--quiet").strip()
        if self._account in ("", "(unset)"):
            raise CannotDeploy("gcloud has no account: gcloud auth login")
        if not os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
            self._gcloud("auth", "application-default", "print-access-token", "--quiet", otherwise=ADVICE[0][1])
        self._gcloud(
            "projects", "describe", self.project, "--format=value(projectId)",
            otherwise=f"no project {self.project} that {self._account} may see: gcloud projects list",
        )  # fmt: skip
        enabled = self._gcloud("services", "list", "--enabled", f"--project={self.project}", "--format=value(config.name)").split()
        if "cloudresourcemanager.googleapis.com" not in enabled:
            raise CannotDeploy(self._advised("SERVICE_DISABLED"))
        if "cloudfunctions.googleapis.com" in enabled:  # else nobody can be asked, and Terraform will say
            listed = self._gcloud("functions", "regions", "list", f"--project={self.project}", "--format=value(name)")
            regions = sorted({line.rpartition("/")[2] for line in listed.split()})
            if regions and self.region not in regions:
                raise CannotDeploy(f"no region {self.region}; there are {', '.join(regions)}")

    def plan(self) -> bool:
        """Make the archive and say what would change; whether anything would. Raises CannotDeploy."""
        self._prepare()
        return self._terraform("plan", "-input=false", "-detailed-exitcode", *self._given(), fine=(0, 2)) == 2

    def deploy(self) -> None:
        """Make the archive, apply, and send a message through. Raises CannotDeploy."""
        self._prepare()
        self._terraform("apply", "-input=false", "-auto-approve", *self._given())
        outputs = self.outputs()
        self.say(f"smoke test: {self.smoke(outputs)}")
        for name in ("publish", "api_url", "status_page", "store"):
            self.say(f"{name:12} {outputs[name]}")

    def destroy(self) -> None:
        """Take everything down but the store. Raises CannotDeploy."""
        self._prepare()
        bucket = self._bucket_in_state()
        if bucket:
            self._terraform("state", "rm", STORE)
        try:
            self._terraform("destroy", "-input=false", "-auto-approve", *self._given())
        finally:
            if bucket:
                self.say(f"left: bucket gs://{bucket} with every revision and action. `make deploy` takes it up again.")
                self.say(f"      gcloud storage rm --recursive gs://{bucket} deletes it for good. The Google APIs stay switched on.")

    def _prepare(self) -> None:
        try:
            archive = write()
        except NotArchived as error:
            raise CannotDeploy(str(error)) from error
        self.variables = {"project": self.project, "region": self.region, "archive": str(archive), **self.variables}
        self.say(f"archive {archive.name}, {archive.stat().st_size:,} bytes")
        self._terraform("init", "-input=false")
        self._take_up_the_store()

    def _take_up_the_store(self) -> None:
        """A store that an earlier `destroy` left is this deployment's again."""
        bucket = self.variables.get("store_bucket") or self._in_tfvars("store_bucket") or f"{self.project}-hullmark"
        if (
            self._bucket_in_state()
            or subprocess.run(
                ["gcloud", "storage", "buckets", "describe", f"gs://{bucket}", f"--project={self.project}", "--format=value(name)"],
                capture_output=True,
                check=False,
            ).returncode
        ):
            return
        self.say(f"taking up the store gs://{bucket} again")
        self._terraform("import", "-input=false", *self._given(), STORE, bucket)

    def _bucket_in_state(self) -> str:
        shown = subprocess.run(
            ["terraform", "state", "show", "-no-color", STORE], cwd=self.root, capture_output=True, text=True, check=False
        )
        match = re.search(r'^\s*name\s*=\s*"([^"]+)"', shown.stdout, re.MULTILINE)
        return match[1] if match and not shown.returncode else ""

    def _in_tfvars(self, name: str) -> str:
        return tfvars(self.root).get(name, "")

    def outputs(self) -> dict[str, Any]:
        """The root's outputs."""
        done = subprocess.run(["terraform", "output", "-json"], cwd=self.root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotDeploy(f"terraform output: {done.stderr.strip()}")
        return {name: output["value"] for name, output in json.loads(done.stdout).items()}

    def smoke(self, outputs: dict[str, Any]) -> str:
        """Publish a dry run for the whole site and wait for the notice that answers it; what it said. Changes no node.

        A new deployment has no committed revision and refuses: the refusal came all the way back, which is what is tested.
        """
        action = str(ULID())
        subscription = f"hullmark-smoke-{action.lower()}"
        here = f"--project={self.project}"
        topics = outputs["topics"]
        self._gcloud("pubsub", "subscriptions", "create", subscription, f"--topic={topics['notices']}", here, "--quiet")
        try:
            body = json.dumps({"action": action, "name": UPDATE_SITE, "dry_run": True, "requested_by": "smoke test"})
            # the attribute names the action in a refusal, too
            self._gcloud(
                "pubsub", "topics", "publish", topics["relabel-requests"], here, f"--message={body}", f"--attribute=identity={action}"
            )
            return self._answer(subscription, here, action)
        finally:
            self._gcloud("pubsub", "subscriptions", "delete", subscription, here, "--quiet")

    def _answer(self, subscription: str, here: str, action: str) -> str:
        end = self.clock() + SMOKE_SECONDS
        while self.clock() < end:
            pulled = self._gcloud(
                "pubsub",
                "subscriptions",
                "pull",
                subscription,
                here,
                "--auto-ack",
                "--limit=50",
                "--format=json(message.data)",  # not data.decode(base64): bytes are nothing that gcloud can print as JSON
            )
            for received in json.loads(pulled or "[]"):
                notice = json.loads(base64.urlsafe_b64decode(received["message"]["data"]))  # the alphabet that gcloud prints
                if notice.get("subject") == action:
                    return said_by(notice)
            self.sleep(2)
        raise CannotDeploy(
            f"everything was made, but no answer came to the dry run {action} within {SMOKE_SECONDS} s. Look, in this order, at the log of"
            " hullmark-relabel-request (gcloud functions logs read) and the alert on oldest-unacked; or `make deploy` again, for fresh"
            " grants take a minute or two"
        )

    def _given(self) -> list[str]:
        return [f"-var={name}={value}" for name, value in self.variables.items()]

    def _terraform(self, *arguments: str, fine: Sequence[int] = (0,)) -> int:
        """Run Terraform with its talk passed on line by line; its exit code. Raises CannotDeploy with advice."""
        said: list[str] = []
        environment = {**os.environ, "TF_IN_AUTOMATION": "1"}
        with subprocess.Popen(
            ["terraform", *arguments], cwd=self.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None  # noqa: S101 - a pipe was asked for
            for line in process.stdout:
                said.append(line)
                self.say(line.rstrip())
        if process.returncode not in fine:
            raise CannotDeploy(f"terraform {arguments[0]} failed. {self._advised(''.join(said))}".strip())
        return process.returncode

    def _gcloud(self, *arguments: str, otherwise: str = "") -> str:
        try:
            done = subprocess.run(["gcloud", *arguments], capture_output=True, text=True, check=False, timeout=GCLOUD_SECONDS)
        except subprocess.TimeoutExpired as late:
            raise CannotDeploy(f"gcloud {' '.join(arguments[:3])}: no answer within {GCLOUD_SECONDS} s") from late
        if done.returncode:
            advice = otherwise or self._advised(done.stderr)
            raise CannotDeploy(f"gcloud {' '.join(arguments[:3])}: {done.stderr.strip()[-500:]}\n{advice}".strip())
        return done.stdout

    def _advised(self, said: str) -> str:
        for pattern, advice in ADVICE:
            if re.search(pattern, said):
                return advice.format(project=self.project, region=self.region, root=self.root, account=self._account)
        return ""


def said_by(notice: dict[str, Any]) -> str:
    """One line about the notice that answered."""
    data = notice.get("data", {})
    if notice["type"] == REQUEST_REFUSED.type:
        causes = "; ".join(problem["message"] for problem in data.get("problems", []))
        return f"the request went through and was refused ({causes}). Commit documents next: hullmark documents stage, then commit"
    return f"dry run {data.get('result')}: {data.get('counts')}"


def tfvars(root: Path) -> dict[str, str]:
    """The plain texts of the root's terraform.tfvars, so that the project need not be named twice."""
    path = root / "terraform.tfvars"
    return dict(re.findall(r'^\s*(\w+)\s*=\s*"([^"]*)"', path.read_text(), re.MULTILINE)) if path.exists() else {}


@click.command()
@click.argument("what", type=click.Choice(["archive", "plan", "deploy", "destroy"]))
@click.option("--project", envvar="PROJECT", help="Google Cloud project id [terraform.tfvars].")
@click.option("--region", envvar="REGION", help="Region, such as europe-west1 [terraform.tfvars].")
@click.option("--root", type=click.Path(exists=True, file_okay=False, path_type=Path), default=DEPLOYMENT, help="Root module to apply.")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="A variable of the root module (repeatable).")
@click.option("--yes", is_flag=True, help="Do not ask before destroying.")
def main(what: str, project: str | None, region: str | None, root: Path, variables: tuple[str, ...], yes: bool) -> None:
    """Deploy Hullmark to Google Cloud. Exit code 2 of `plan`: something would change."""
    try:
        if what == "archive":
            click.echo(write())
            return
        known = tfvars(root)
        project, region = project or known.get("project"), region or known.get("region")
        if not project or not region:
            raise CannotDeploy(f"say where: make {what} PROJECT=my-project REGION=europe-west1, or terraform.tfvars in {root}")
        deployment = Deployment(project, region, root, dict(pair.partition("=")[::2] for pair in variables))
        deployment.check()
        if what == "plan":
            sys.exit(2 if deployment.plan() else 0)
        if what == "destroy":
            if not yes:
                click.confirm(f"Take down everything of Hullmark in {project} but the store?", abort=True, err=True)
            deployment.destroy()
        else:
            deployment.deploy()
    except (CannotDeploy, NotArchived) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
