"""Every call that the adapters of EKS and GKE make is among the rights that the pages and Terraform give, and no other is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import botocore.session
import pytest
from botocore import xform_name

from local.steps import ROOT

ADAPTERS = ROOT / "shared" / "adapters"
CLOUD_OPERATIONS = {"_call", "_pages"}
"""The methods of the adapters whose first argument names an operation."""
GKE_PERMISSIONS = {
    "get_cluster": "container.clusters.get",
    "get_server_config": "container.clusters.list",
    "update_master": "container.clusters.update",
    "update_node_pool": "container.clusters.update",
    "list_operations": "container.operations.list",
}
"""By method of google-cloud-container's client, the permission that its reference names."""


def called(module: str) -> set[str]:
    """The operations that an adapter names in its calls."""
    return {name for name in _operations(ast.parse((ADAPTERS / f"{module}.py").read_text())) if name}


def _operations(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        first = node.args[0] if node.args else None
        if node.func.attr in CLOUD_OPERATIONS and isinstance(first, ast.Constant):
            yield str(first.value)
        elif node.func.attr == "describe_cluster":
            yield node.func.attr


def iam_actions(module: str) -> set[str]:
    """The IAM actions of AWS that an adapter's operations need: named like the operations."""
    found = set()
    for operation in called(module):
        services = ("ssm",) if operation.startswith("get_parameters") else ("eks",)
        for service in services:
            names = botocore.session.get_session().get_service_model(service).operation_names
            found |= {f"{service}:{name}" for name in names if xform_name(name) == operation}
    return found


def listed(page: str, pattern: str) -> set[str]:
    """What a file of the repository names."""
    return set(re.findall(pattern, (ROOT / page).read_text()))


def test_every_call_to_aws_is_among_the_rights_that_the_page_names_and_no_other_is() -> None:
    needed = iam_actions("eks_versions") | iam_actions("eks")
    assert {"eks:DescribeUpdate", "eks:ListInsights", "ssm:GetParametersByPath"} <= needed
    assert listed("docs/networks.md", r"(?:eks|ssm):[A-Z]\w+") == needed


def test_every_call_to_gke_is_among_the_rights_of_the_role() -> None:
    calls = called("gke_versions")
    assert calls == GKE_PERMISSIONS.keys(), "look up the permission of a new call"
    (update,) = re.findall(r'"Hullmark version updates".*?permissions = \[(.*?)\]', (ROOT / "terraform/accounts.tf").read_text(), re.DOTALL)
    assert {GKE_PERMISSIONS[each] for each in calls} <= set(re.findall(r'"([\w.]+)"', update))


@pytest.mark.parametrize("call", ["get_cluster", "get_server_config", "list_operations"])
def test_what_version_check_asks_gke_is_among_the_rights_that_it_has(call: str) -> None:
    (ends,) = re.findall(r'"Hullmark version ends".*?permissions = \[(.*?)\]', (ROOT / "terraform/accounts.tf").read_text(), re.DOTALL)
    viewer = {"container.clusters.connect", "container.clusters.get", "container.clusters.list"}  # roles/container.clusterViewer
    assert GKE_PERMISSIONS[call] in viewer | set(re.findall(r'"([\w.]+)"', ends))
