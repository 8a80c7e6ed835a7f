"""Terraform without its provider: the stub in a filesystem mirror, and what a configuration evaluates to."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local.steps import ROOT
from tests.conftest import require_real

STUB = Path(__file__).resolve().parent / "stub" / "provider.py"
VERSION = "7.45.0"
"""The release of the real provider that the stub's schemas follow."""
PROJECT, REGION = "fleet-project", "europe-west1"


class Failed(Exception):
    """Terraform said no; `output` is all of it."""

    def __init__(self, output: str) -> None:
        super().__init__(output)
        self.output = output


def required() -> str:
    """Terraform's path. Skips with a reason where there is none, fails where CI says that there must be one."""
    found = shutil.which("terraform")
    require_real("terraform", found, "https://developer.hashicorp.com/terraform/install")
    return str(found)


class Terraform:
    """Terraform with the stub in place of hashicorp/google."""

    def __init__(self, folder: Path) -> None:
        self._binary = required()
        platform = json.loads(subprocess.run([self._binary, "version", "-json"], capture_output=True, text=True, check=True).stdout)[
            "platform"
        ]
        place = folder / "mirror" / "registry.terraform.io" / "hashicorp" / "google" / VERSION / platform
        place.mkdir(parents=True)
        plugin = place / f"terraform-provider-google_v{VERSION}"
        plugin.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{STUB}'\n")
        plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
        config = folder / "terraform.rc"
        config.write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{folder / "mirror"}"\n  }}\n}}\n')
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("TF_", "GOOGLE_"))},
            "TF_CLI_CONFIG_FILE": str(config),
            "TF_DISABLE_PLUGIN_TLS": "1",
            "TF_IN_AUTOMATION": "1",
            "CHECKPOINT_DISABLE": "1",
        }

    def run(self, folder: Path, *arguments: str) -> str:
        """Run one command in `folder`; what it says. Raises Failed."""
        done = subprocess.run(
            [self._binary, *arguments], cwd=folder, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )
        if done.returncode:
            raise Failed(done.stdout + done.stderr)
        return done.stdout

    def plan(self, root: Path, variables: Mapping[str, Any]) -> Planned:
        """Evaluate a root module whole."""
        return Planned(self._shown(root, variables))

    def changes(self, root: Path, variables: Mapping[str, Any]) -> dict[str, list[str]]:
        """What a plan would do to each resource, by address."""
        return {change["address"]: change["change"]["actions"] for change in self._shown(root, variables)["resource_changes"]}

    def _shown(self, root: Path, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        (root / "planned.auto.tfvars.json").write_text(json.dumps(dict(variables)))
        self.run(root, "init", "-no-color", "-input=false")
        self.run(root, "plan", "-no-color", "-input=false", "-refresh=false", "-out=planned.out")
        shown: Mapping[str, Any] = json.loads(self.run(root, "show", "-json", "planned.out"))
        return shown


class Planned:
    """What would be made: every resource with its values."""

    def __init__(self, shown: Mapping[str, Any]) -> None:
        self._resources = list(_resources(shown["planned_values"]["root_module"]))
        self.outputs: dict[str, Any] = {name: output.get("value") for name, output in shown["planned_values"].get("outputs", {}).items()}

    def all(self, kind: str, name: str = "") -> dict[str, dict[str, Any]]:
        """Resources of a type (and of a name in the module): the key of for_each, or the address, → values."""
        kind = f"google_{kind}"
        return {
            str(found.get("index", found["address"])): found["values"]
            for found in self._resources
            if found["type"] == kind and found["mode"] == "managed" and name in ("", found["name"])
        }

    def each(self, kind: str) -> list[dict[str, Any]]:
        """Every resource of a type, whatever its name."""
        return [found["values"] for found in self._resources if found["type"] == f"google_{kind}" and found["mode"] == "managed"]


def _resources(module: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*module.get("resources", []), *(found for child in module.get("child_modules", []) for found in _resources(child))]


def copied(folder: Path, *, backend: bool = False) -> Path:
    """A copy of what Terraform reads, to plant mistakes in; its example root. Without `backend` its state lies beside it."""
    left_out = shutil.ignore_patterns(".terraform", "*.tfstate*", ".terraform.lock.hcl", "*.tfvars", "planned.*")
    shutil.copytree(ROOT / "terraform", folder / "terraform", ignore=left_out)
    shutil.copytree(ROOT / "docs" / "runbooks", folder / "docs" / "runbooks")
    (folder / "functions").mkdir()
    shutil.copy(ROOT / "functions" / "steps.yaml", folder / "functions" / "steps.yaml")
    (folder / "archive.zip").write_bytes(b"any bytes")
    root = folder / "terraform" / "examples" / "deploy"
    if not backend:
        (root / "backend_override.tf").write_text('terraform {\n  backend "local" {}\n}\n')
    return root


def usual(root: Path, **more: Any) -> dict[str, Any]:
    """Variables of a deployment that uses everything."""
    return {
        "project": PROJECT,
        "region": REGION,
        "archive": str(root.parents[2] / "archive.zip"),
        "gke_projects": [PROJECT, "other-project"],
        "gke_version_updates": True,
        "kubeconfig_secrets": {"prod": "hullmark-prod"},
        "aws_credentials_secret": "hullmark-aws",
        "default_cluster": "kubeconfig:/etc/hullmark/prod/kubeconfig",
        "api_invokers": ["group:platform@example.com"],
        "api_readers": ["group:everybody@example.com"],
        **more,
    }
