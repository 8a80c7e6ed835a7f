"""`make plan`, `make deploy`, `make rollback`, `make destroy`: the archive, Terraform, and a message through everything.

What usually goes wrong is looked for before Terraform starts (tools, credentials, project, region, state) or read from what it says
(`local.deploy.tools.ADVICE`): every error ends in what to do about it. A deployment that replaces another is tried before it gets traffic.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from local.deploy.archive import NotArchived, write
from local.deploy.others import check_other_projects
from local.deploy.smoke import Smoke
from local.deploy.state import STORE, State
from local.deploy.tools import CannotDeploy, Tools
from local.deploy.traffic import Service, Traffic
from local.steps import ROOT

DEPLOYMENT = ROOT / "terraform" / "examples" / "deploy"
PREFIX = "hullmark-"
"""name_prefix where nobody chose one."""
FUNCTION = "google_cloudfunctions2_function"


@dataclass
class Deployment:
    """One root module, one project, one region."""

    project: str
    region: str
    root: Path = DEPLOYMENT
    variables: dict[str, str] = field(default_factory=dict)
    state_bucket: str = ""
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr)
    agree: Callable[[str], bool] = lambda _: True
    """Asked before anything is applied, with what will happen."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self.tools = Tools(self.project, self.region, self.root, self.say)
        self.prefix = self._variable("name_prefix") or PREFIX
        self.state = State(self.tools, self.state_bucket or f"{self.project}-hullmark-state", self.prefix.rstrip("-"))
        self.traffic = Traffic(self.tools, self.prefix, f"{self.state.folder}/before.json")

    def check(self) -> None:
        """Look for what is missing before anything is done. Raises CannotDeploy."""
        self.tools.check()

    def plan(self) -> bool:
        """Make the archive and say what would change; whether anything would. Changes nothing. Raises CannotDeploy."""
        self._archive()
        if self.state.there():
            self.state.open()
            known = self.state.resources()
            self.state.must_know_what_runs(self.prefix, known)
            return self._planned(known)
        self.state.must_know_what_runs(self.prefix, [])
        with self.state.without():
            return self._planned([])

    def _planned(self, known: list[str]) -> bool:
        return self.tools.terraform("plan", "-input=false", "-detailed-exitcode", *self._given(known), fine=(0, 2)) == 2

    def deploy(self) -> None:
        """Make the archive, show the plan and ask, apply, and send a message through. Raises CannotDeploy."""
        self._archive()
        if not self.state.there():
            self.state.must_know_what_runs(self.prefix, [])
            self.state.make()
        self.state.open()
        known = self.state.resources()
        self.state.must_know_what_runs(self.prefix, known)
        running = self.traffic.services() if any(FUNCTION in address for address in known) else {}
        with self._plan_of(known) as plan:
            if plan.changes and not self.agree("Apply this plan?"):
                raise CannotDeploy("nothing was changed")
            if plan.changes and running and plan.replaces_functions:
                self._upgrade(known, running)
            elif plan.changes:
                self.tools.terraform("apply", "-input=false", str(plan.file))
        outputs = self.outputs()
        self.say(f"smoke test: {self._smoke(outputs).test()}")
        for name in ("publish", "api_url", "status_page", "store"):
            self.say(f"{name:12} {outputs[name]}")

    def _upgrade(self, known: list[str], running: Mapping[str, Service]) -> None:
        """Replace what runs: the new revisions get no traffic until one of them has answered."""
        self.say(f"traffic stays with what serves now while the new revisions are made and tried ({len(running)} functions)")
        self.traffic.hold(running, self.variables["archive"])
        try:
            self.tools.terraform("apply", "-input=false", "-auto-approve", "-var=hold_traffic=true", *self._given(known))
        except CannotDeploy as error:
            raise CannotDeploy(f"{error}\nTraffic stays with what served before. Deploy again once the cause is gone") from error
        services = self.traffic.services()
        name = f"{self.prefix}relabel-request"
        if name in services:
            services = {**services, name: self.traffic.tag(services[name])}
            self.say(f"candidate: {self._try(services[name])}")
        self.traffic.release(services)

    def _try(self, candidate: Service) -> str:
        try:
            return self._smoke(self.outputs()).test_candidate(
                candidate.candidate, candidate.url, f"{self.prefix}push@{self.project}.iam.gserviceaccount.com"
            )
        except CannotDeploy as error:
            raise CannotDeploy(
                f"{error}\nThe new revisions get no traffic: what served before still does. {candidate.newest} did not answer"
            ) from error

    def rollback(self) -> None:
        """Give the traffic back to what served before the last deployment, and send a message through. Raises CannotDeploy."""
        if not self.state.there():
            raise CannotDeploy(f"nothing to go back to: there is no {self.state.folder}")
        if not self.agree(f"Give all traffic in {self.project} back to the revisions before the last deployment?"):
            raise CannotDeploy("nothing was changed")
        for name, revision in self.traffic.back().items():
            self.say(f"{name:30} {revision}")
        self.state.open()
        self.say(f"smoke test: {self._smoke(self.outputs()).test()}")
        self.say("Topics, rights and settings are as they were deployed; only the code went back. `make deploy` moves on from here.")

    def destroy(self) -> None:
        """Take everything down but the store. Raises CannotDeploy."""
        if not self.state.there():
            raise CannotDeploy(f"nothing to take down: there is no {self.state.folder}")
        self._archive()
        self.state.open()
        bucket = self._bucket_in_state()
        if bucket:
            self.tools.terraform("state", "rm", STORE)
        try:
            self.tools.terraform("destroy", "-input=false", "-auto-approve", *self._given(None))
        finally:
            if bucket:
                self.say(f"left: bucket gs://{bucket} with every revision and action. `make deploy` takes it up again.")
                self.say(f"      gcloud storage rm --recursive gs://{bucket} deletes it for good. The Google APIs stay switched on.")
            self.say(f"left: Terraform's state in gs://{self.state.bucket}")

    def _archive(self) -> None:
        try:
            archive = write()
        except NotArchived as error:
            raise CannotDeploy(str(error)) from error
        self.variables = {"project": self.project, "region": self.region, "archive": str(archive), **self.variables}
        self.say(f"archive {archive.name}, {archive.stat().st_size:,} bytes")

    @contextmanager
    def _plan_of(self, known: list[str]) -> Iterator[Plan]:
        """The plan, shown; it lies in a folder that goes with it. Raises CannotDeploy where it would take the store away."""
        with TemporaryDirectory() as folder:
            file = Path(folder) / "plan"
            changes = self.tools.terraform(
                "plan", "-input=false", "-detailed-exitcode", f"-out={file}", *self._given(known), fine=(0, 2)
            )  # fmt: skip
            plan = Plan(file, changes == 2, json.loads(self.tools.told("show", "-json", str(file))))
            if "delete" in plan.actions(STORE):
                raise CannotDeploy(
                    "this plan would delete the store, with every revision and action in it: project, store_bucket or name_prefix name"
                    " another one than the deployment has. For a second deployment choose a name_prefix that is new"
                )
            prefix = plan.variables.get("name_prefix", self.prefix)
            if prefix != self.prefix:
                raise CannotDeploy(f"name_prefix is {prefix!r} somewhere that `make` does not read: set it in terraform.tfvars, as text")
            check_other_projects(self.tools, self.project, plan.variables)
            yield plan

    def _left_store(self, known: list[str]) -> list[str]:
        """A store that an earlier `destroy` left is this deployment's again."""
        bucket = self._variable("store_bucket") or f"{self.project}-{self.prefix.rstrip('-')}"
        described = ("storage", "buckets", "describe", f"gs://{bucket}", f"--project={self.project}", "--format=value(name)")
        if STORE in known or self.tools.asked(*described) is None:
            return []
        self.say(f"taking up the store gs://{bucket} again")
        return [bucket]

    def _bucket_in_state(self) -> str:
        if STORE not in self.state.resources():
            return ""
        match = re.search(r'^\s*name\s*=\s*"([^"]+)"', self.tools.told("state", "show", "-no-color", STORE), re.MULTILINE)
        return match[1] if match else ""

    def _variable(self, name: str) -> str:
        """A variable as it was given: on the command line, in the environment, in terraform.tfvars."""
        return self.variables.get(name) or os.environ.get(f"TF_VAR_{name}") or tfvars(self.root).get(name, "")

    def outputs(self) -> dict[str, Any]:
        """The root's outputs."""
        return {name: output["value"] for name, output in json.loads(self.tools.told("output", "-json")).items()}

    def _smoke(self, outputs: Mapping[str, Any]) -> Smoke:
        return Smoke(self.tools, outputs["topics"], self.clock, self.sleep)

    def _given(self, known: list[str] | None) -> list[str]:
        """The variables for Terraform. `known`: what the state holds, where a store may have to be taken up."""
        left = {} if known is None else {"left_store": json.dumps(self._left_store(known))}
        return [f"-var={name}={value}" for name, value in {**self.variables, **left}.items()]


@dataclass(frozen=True)
class Plan:
    """A plan that Terraform made, and what it says of it."""

    file: Path
    changes: bool
    shown: Mapping[str, Any]

    @property
    def variables(self) -> dict[str, Any]:
        """The root's variables as Terraform evaluated them."""
        return {name: given.get("value") for name, given in self.shown.get("variables", {}).items()}

    @property
    def replaces_functions(self) -> bool:
        """Whether a function that runs gets another revision."""
        return any(change["type"] == FUNCTION and "update" in change["change"]["actions"] for change in self._resources)

    def actions(self, address: str) -> list[str]:
        """What happens to one resource."""
        return [action for change in self._resources if change["address"] == address for action in change["change"]["actions"]]

    @property
    def _resources(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.shown.get("resource_changes", [])
        return found


def tfvars(root: Path) -> dict[str, str]:
    """The plain texts of the root's terraform.tfvars, so that the project need not be named twice."""
    path = root / "terraform.tfvars"
    return dict(re.findall(r'^\s*(\w+)\s*=\s*"([^"]*)"', path.read_text(), re.MULTILINE)) if path.exists() else {}


def asking(question: str) -> bool:
    """Ask on the terminal. Where nobody can answer, say how to go on. Raises CannotDeploy."""
    if not sys.stdin.isatty():
        raise CannotDeploy("nobody is here to agree: AUTO=1 applies without asking")
    return click.confirm(question, err=True)


@click.command()
@click.argument("what", type=click.Choice(["archive", "plan", "deploy", "rollback", "destroy"]))
@click.option("--project", envvar="PROJECT", help="Google Cloud project id [terraform.tfvars].")
@click.option("--region", envvar="REGION", help="Region, such as europe-west1 [terraform.tfvars].")
@click.option("--root", type=click.Path(exists=True, file_okay=False, path_type=Path), default=DEPLOYMENT, help="Root module to apply.")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="A variable of the root module (repeatable).")
@click.option("--state-bucket", envvar="STATE_BUCKET", default="", help="Bucket of Terraform's state [PROJECT-hullmark-state].")
@click.option("--auto", is_flag=True, envvar="AUTO", help="Apply without asking (AUTO=1).")
def main(what: str, project: str | None, region: str | None, root: Path, variables: tuple[str, ...], state_bucket: str, auto: bool) -> None:
    """Deploy Hullmark to Google Cloud. Exit code 2 of `plan`: something would change."""
    try:
        if what == "archive":
            click.echo(write())
            return
        known = tfvars(root)
        project, region = project or known.get("project"), region or known.get("region")
        if not project or not region:
            raise CannotDeploy(f"say where: make {what} PROJECT=my-project REGION=europe-west1, or terraform.tfvars in {root}")
        given = dict(pair.partition("=")[::2] for pair in variables)
        agree = (lambda _: True) if auto else asking
        deployment = Deployment(project, region, root, given, state_bucket, agree=agree)
        deployment.check()
        match what:
            case "plan":
                sys.exit(2 if deployment.plan() else 0)
            case "destroy":
                if not agree(f"Take down everything of Hullmark in {project} but the store?"):
                    raise CannotDeploy("nothing was changed")
                deployment.destroy()
            case "rollback":
                deployment.rollback()
            case _:
                deployment.deploy()
    except (CannotDeploy, NotArchived) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
