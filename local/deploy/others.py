"""What a deployer needs in the other projects whose clusters are reached: looked at before anything is applied."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from local.deploy.tools import CannotDeploy, Tools

SERVICE = "https://cloudresourcemanager.googleapis.com"
NEEDED: Mapping[str, tuple[str, ...]] = {
    "roles/resourcemanager.projectIamAdmin": ("resourcemanager.projects.getIamPolicy", "resourcemanager.projects.setIamPolicy"),
    "roles/logging.configWriter": ("logging.sinks.create", "logging.sinks.get", "logging.sinks.update"),
    "roles/iam.roleAdmin": ("iam.roles.create", "iam.roles.get", "iam.roles.update"),
}
"""Role → what of it a deployment uses there: to let functions in, to route node events, to make the role for version updates."""


def check_other_projects(tools: Tools, project: str, variables: Mapping[str, Any]) -> None:
    """Raises CannotDeploy with every right and API that is missing in the other projects of `gke_projects`."""
    missing = [
        problem
        for other in variables.get("gke_projects") or []
        if other != project
        for problem in _missing(tools, other, _roles(variables))
    ]
    if missing:
        raise CannotDeploy("\n".join(["in the other projects of gke_projects:", *missing]))


def _roles(variables: Mapping[str, Any]) -> list[str]:
    wanted = {
        "roles/resourcemanager.projectIamAdmin": True,
        "roles/logging.configWriter": variables.get("gke_node_events", True),
        "roles/iam.roleAdmin": variables.get("gke_version_updates", False),
    }
    return [role for role, needed in wanted.items() if needed]


def _missing(tools: Tools, project: str, roles: Sequence[str]) -> list[str]:
    held = _held(tools, project, [permission for role in roles for permission in NEEDED[role]])
    lacking = [role for role in roles if not held.issuperset(NEEDED[role])]
    found = [f"{project}: {tools.account} needs {role}" for role in lacking]
    if "container.googleapis.com" not in tools.enabled(project):
        found.append(f"{project}: gcloud services enable container.googleapis.com --project={project}")
    return found


def _held(tools: Tools, project: str, permissions: Sequence[str]) -> set[str]:
    """Those of the permissions that the deployer has on a project."""
    token = tools.gcloud("auth", "application-default", "print-access-token", "--quiet").strip()
    asked = urllib.request.Request(  # noqa: S310 - Google's own address
        f"{SERVICE}/v3/projects/{project}:testIamPermissions",
        json.dumps({"permissions": list(permissions)}).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310
            return set(json.load(answer).get("permissions", []))
    except urllib.error.HTTPError as error:
        if error.code in (403, 404):
            return set()
        raise CannotDeploy(f"{SERVICE}: {error}") from error
    except (OSError, ValueError) as error:
        raise CannotDeploy(f"{SERVICE}: {error}") from error
