"""Terraform and gcloud as programs: run, their talk passed on, and what they say followed by what to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

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
    (
        r"state lock|Error acquiring the state lock",
        "somebody else deploys now, or was cut off: terraform force-unlock ID, in {root}, when you know that nobody does",
    ),
    (
        r"does not have storage\.buckets\.get",
        "a bucket of that name is somebody else's: choose one with store_bucket (the store) or STATE_BUCKET (Terraform's state)",
    ),
    (
        r"PERMISSION_DENIED|Error 403|403 Forbidden|[Pp]ermission .* denied",
        "you ({account}) lack a right on project {project}; the message above names it. roles/owner has all of them; what is needed"
        " at least is in docs/deploy.md",
    ),
)
"""What Terraform or gcloud says → what to do. The first that matches counts."""


FUNCTIONS_API = "cloudfunctions.googleapis.com"


class CannotDeploy(Exception):
    """It did not work; the message says what to do."""


@dataclass
class Tools:
    """Terraform in one root module and gcloud in one project. Both raise CannotDeploy with advice."""

    project: str
    region: str
    root: Path
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr)
    account: str = "unknown"

    def check(self) -> None:
        """Look for what is missing before anything is done."""
        for tool, where in INSTALL.items():
            if not shutil.which(tool):
                raise CannotDeploy(f"{tool} is not on the PATH: {where}")
        self.account = self.gcloud("config", "get-value", "account", "--quiet").strip()
        if self.account in ("", "(unset)"):
            raise CannotDeploy("gcloud has no account: gcloud auth login")
        if not os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
            self.gcloud("auth", "application-default", "print-access-token", "--quiet", otherwise=ADVICE[0][1])
        self.gcloud(
            "projects", "describe", self.project, "--format=value(projectId)",
            otherwise=f"no project {self.project} that {self.account} may see: gcloud projects list",
        )  # fmt: skip
        enabled = self.enabled(self.project)
        if "cloudresourcemanager.googleapis.com" not in enabled:
            raise CannotDeploy(self.advised("SERVICE_DISABLED"))
        if FUNCTIONS_API in enabled:  # else nobody can be asked, and Terraform will say
            listed = self.gcloud("functions", "regions", "list", f"--project={self.project}", "--format=value(name)")
            regions = sorted({line.rpartition("/")[2] for line in listed.split()})
            if regions and self.region not in regions:
                raise CannotDeploy(f"no region {self.region}; there are {', '.join(regions)}")

    def enabled(self, project: str) -> list[str]:
        """The Google APIs that are switched on in a project."""
        return self.gcloud("services", "list", "--enabled", f"--project={project}", "--format=value(config.name)").split()

    def terraform(self, *arguments: str, fine: Sequence[int] = (0,)) -> int:
        """Run Terraform with its talk passed on line by line; its exit code."""
        said: list[str] = []
        with subprocess.Popen(
            ["terraform", *arguments], cwd=self.root, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None  # noqa: S101 - a pipe was asked for
            for line in process.stdout:
                said.append(line)
                self.say(line.rstrip())
        if process.returncode not in fine:
            raise CannotDeploy(f"terraform {arguments[0]} failed. {self.advised(''.join(said))}".strip())
        return process.returncode

    def told(self, *arguments: str) -> str:
        """What Terraform answers on its standard output."""
        done = subprocess.run(["terraform", *arguments], cwd=self.root, env=_environment(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotDeploy(f"terraform {arguments[0]}: {done.stderr.strip()[-1000:]}\n{self.advised(done.stderr)}".strip())
        return done.stdout

    def gcloud(self, *arguments: str, otherwise: str = "", given: str | None = None) -> str:
        """What gcloud answers. `otherwise`: the advice when it fails. `given`: its standard input."""
        done = self._gcloud(arguments, given)
        if done.returncode:
            advice = otherwise or self.advised(done.stderr)
            raise CannotDeploy(f"gcloud {' '.join(arguments[:3])}: {done.stderr.strip()[-500:]}\n{advice}".strip())
        return done.stdout

    def asked(self, *arguments: str) -> str | None:
        """What gcloud answers; None where it says that there is no such thing. Any other failure is raised."""
        done = self._gcloud(arguments, None)
        if not done.returncode:
            return done.stdout
        if re.search(r"(?i)not[ _]found|404|matched no objects|does not exist", done.stderr):
            return None
        raise CannotDeploy(f"gcloud {' '.join(arguments[:3])}: {done.stderr.strip()[-500:]}\n{self.advised(done.stderr)}".strip())

    def _gcloud(self, arguments: Sequence[str], given: str | None) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(["gcloud", *arguments], input=given, capture_output=True, text=True, check=False, timeout=GCLOUD_SECONDS)
        except subprocess.TimeoutExpired as late:
            raise CannotDeploy(f"gcloud {' '.join(arguments[:3])}: no answer within {GCLOUD_SECONDS} s") from late

    def advised(self, said: str) -> str:
        """What to do about what a tool said; empty where nothing is known."""
        for pattern, advice in ADVICE:
            if re.search(pattern, said):
                return advice.format(project=self.project, region=self.region, root=self.root, account=self.account)
        return ""


def _environment() -> dict[str, str]:
    return {**os.environ, "TF_IN_AUTOMATION": "1"}
