"""Terraform's state in a bucket, so that every clone deploys the same deployment.

The bucket is `gs://PROJECT-hullmark-state`, the folder in it the deployment's name. What is there is looked at before anything is
planned: functions without a state, or two states, would end in a second deployment on top of the first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local import steps
from local.deploy.tools import FUNCTIONS_API, CannotDeploy, Tools

STORE = "module.hullmark.google_storage_bucket.store"
"""Where the example root keeps the one resource that outlives `destroy`."""
MARK = "# Made by `make plan` while there is no bucket for the state, and removed by it.\n"
OVERRIDE = "backend_override.tf"
"""What Terraform reads in place of the root's backend while there is no bucket yet."""


@dataclass(frozen=True)
class State:
    """Where one deployment's state lies."""

    tools: Tools
    bucket: str
    name: str
    """The deployment's name: name_prefix without its hyphen."""

    @property
    def folder(self) -> str:
        return f"gs://{self.bucket}/{self.name}"

    def there(self) -> bool:
        """Whether the bucket was made."""
        return self.tools.asked("storage", "buckets", "describe", f"gs://{self.bucket}", "--format=value(name)") is not None

    def make(self) -> None:
        """Make the bucket: private, and with its versions kept, for a state that is lost is a deployment that nobody can change."""
        self.tools.say(f"making the bucket of Terraform's state, gs://{self.bucket}")
        self.tools.gcloud(
            "storage", "buckets", "create", f"gs://{self.bucket}", f"--project={self.tools.project}", f"--location={self.tools.region}",
            "--uniform-bucket-level-access", "--public-access-prevention",
        )  # fmt: skip
        self.tools.gcloud("storage", "buckets", "update", f"gs://{self.bucket}", "--versioning")

    def open(self) -> None:
        """Let Terraform use the bucket. A state that lies beside the root, from before there was a bucket, moves into it."""
        self._no_override()
        backend = ("-input=false", f"-backend-config=bucket={self.bucket}", f"-backend-config=prefix={self.name}")
        local = self.tools.root / "terraform.tfstate"
        if not _holds_resources(local):
            self.tools.terraform("init", "-reconfigure", *backend)
            return
        if self.tools.asked("storage", "objects", "describe", f"{self.folder}/default.tfstate", "--format=value(name)") is not None:
            raise CannotDeploy(
                f"two states: {local} and {self.folder}/default.tfstate. The one in the bucket is what others deploy; move the file away"
                " (it is of an earlier deployment), or move the other one"
            )
        self.tools.say(f"moving the state from {local} to {self.folder}")
        self.tools.terraform("init", "-migrate-state", "-force-copy", *backend)

    @contextmanager
    def without(self) -> Iterator[None]:
        """Plan before there is a bucket: against nothing, and leaving nothing behind."""
        override, scratch = self.tools.root / OVERRIDE, self.tools.root / ".terraform" / "none"
        if _holds_resources(self.tools.root / "terraform.tfstate"):
            raise CannotDeploy(
                f"{self.tools.root / 'terraform.tfstate'} holds this deployment's state: `make deploy` moves it to {self.folder}"
            )
        scratch.mkdir(parents=True, exist_ok=True)
        override.write_text(f'{MARK}terraform {{\n  backend "local" {{\n    path = "{scratch}/terraform.tfstate"\n  }}\n}}\n')
        try:
            self.tools.terraform("init", "-reconfigure", "-input=false")
            yield
        finally:
            override.unlink()

    def _no_override(self) -> None:
        """Take away what a plan left behind that was killed."""
        override = self.tools.root / OVERRIDE
        if override.exists() and override.read_text().startswith(MARK):
            override.unlink()

    def resources(self) -> list[str]:
        """The addresses of everything in the state."""
        return self.tools.told("state", "list").split()

    def must_know_what_runs(self, prefix: str, known: list[str]) -> None:
        """Functions that run and no state: this clone would deploy a second time, on top. Raises CannotDeploy."""
        if known or FUNCTIONS_API not in self.tools.enabled(self.tools.project):
            return
        ours = {f"{prefix}{name.replace('_', '-')}" for name in steps.load().steps}
        listed = self.tools.gcloud("functions", "list", f"--project={self.tools.project}", "--format=value(name)").split()
        running = sorted(ours & {name.rpartition("/")[2] for name in listed})
        if running:
            raise CannotDeploy(
                f"{running[0]} and {len(running) - 1} more functions run in {self.tools.project}, but the state {self.folder} is empty:"
                " they were deployed with another one. If that is a terraform.tfstate on somebody's machine, put it into"
                f" {self.tools.root} and deploy again: it moves to the bucket. For a second deployment choose another name_prefix"
            )


def _holds_resources(file: Path) -> bool:
    try:
        return bool(json.loads(file.read_text()).get("resources"))
    except (OSError, ValueError):
        return False
