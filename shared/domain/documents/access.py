"""How a cluster is reached: what a Cluster document may say, and what only the operator's settings may.

Documents come from pull requests and over HTTP, so they name entries of the settings and hold no path. The two are different types:
nothing that reads a document makes a `KubeconfigFile` or a `SeedFile`. Kept apart from the other kinds, because a step that applies
labels reads no more of a document than this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeAlias, TypeVar

from pydantic import AfterValidator, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from shared.domain.documents.strict import StrictModel
from shared.domain.keys import is_subdomain

S = TypeVar("S", bound=StrictModel)
KUBECONFIGS, SIMULATED = "HULLMARK_KUBECONFIGS", "HULLMARK_SIMULATED"
"""The operator's settings whose entries documents name."""
NO_FILES: Mapping[tuple[str | int, ...], str] = {
    ("kubeconfig", "path"): f"a document names no file: put it into {KUBECONFIGS} (NAME=PATH) and write `kubeconfig: {{name: NAME}}`",
    ("simulated", "nodes"): f"a document names no file: put it into {SIMULATED} (NAME=FILE) and write `simulated: {{name: NAME}}`",
}
"""Fields that once held a path, by the field that holds them, and what to write instead."""


def _matching(pattern: str, rule: str) -> AfterValidator:
    """A validator for values that go into a path or a URL. The pattern admits no `/`, no `..` and no white space."""
    known = re.compile(pattern)

    def check(value: str) -> str:
        if not known.fullmatch(value):
            raise ValueError(rule)
        return value

    return AfterValidator(check)


ENTRY = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""What an entry of the settings may be called: a DNS label."""
_RULE = "the name of an entry has at most 63 lower-case letters, digits and -; a document names no file: the setting says which"
KubeconfigName = Annotated[str, _matching(ENTRY.pattern, f"{_RULE} ({KUBECONFIGS}: NAME=PATH)")]
SeedName = Annotated[str, _matching(ENTRY.pattern, f"{_RULE} ({SIMULATED}: NAME=FILE)")]
Project = Annotated[str, _matching(r"([a-z0-9.-]+:)?[a-z0-9]([-a-z0-9]{0,62}[a-z0-9])?", "must be the id of a Google Cloud project")]
Location = Annotated[str, _matching(r"[a-z]+(-[a-z]+)+[0-9]+(-[a-z])?", "must be a region or zone such as europe-west4 or europe-west4-a")]
GkeName = Annotated[str, _matching(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", "must be a GKE cluster's name: lower-case letters, digits and -")]
Region = Annotated[str, _matching(r"[a-z]{2,}(-[a-z]+)+-[0-9]+", "must be an AWS region such as eu-central-1")]
EKS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
"""What EKS calls clusters and node groups."""
RoleArn = Annotated[
    str,
    _matching(
        r"arn:aws(-[a-z]+)*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]{1,512}",
        "must be the ARN of an IAM role: arn:aws:iam::123456789012:role/NAME",
    ),
]
Endpoint: TypeAlias = Literal["public", "private", "dns"]
EksName = Annotated[str, _matching(EKS_NAME.pattern, "must be an EKS cluster's name: letters, digits, - and _")]


class Kubeconfig(StrictModel):
    """A context of the kubeconfig that HULLMARK_KUBECONFIGS has under this name; without `name` the operator's default one."""

    name: KubeconfigName | None = None
    context: str | None = None


class InCluster(StrictModel):
    """The cluster that the process runs in."""


class Gke(StrictModel):
    """A GKE cluster. `endpoint`: which of its addresses; without it the one that the cluster gives, by IP before by DNS."""

    project: Project
    location: Location
    name: GkeName
    endpoint: Endpoint | None = None


class Eks(StrictModel):
    """An EKS cluster. `role_arn`: the role that the function's Google identity assumes; without it AWS credentials are needed."""

    region: Region
    name: EksName
    role_arn: RoleArn | None = None


class Simulated(StrictModel):
    """The simulated cluster, seeded from the node list that HULLMARK_SIMULATED has under this name."""

    name: SeedName


Way = Kubeconfig | InCluster | Gke | Eks | Simulated


class Access(StrictModel):
    """How to reach a cluster: exactly one of these."""

    kubeconfig: Kubeconfig | None = None
    in_cluster: InCluster | None = None
    gke: Gke | None = None
    eks: Eks | None = None
    simulated: Simulated | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [to_camel(name) for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of kubeconfig, inCluster, gke, eks, simulated (here: {', '.join(given) or 'none'})")
        return self

    @property
    def way(self) -> Way:
        """The one that is given."""
        way = self.kubeconfig or self.in_cluster or self.gke or self.eks or self.simulated
        assert way is not None  # noqa: S101 - `_exactly_one` saw to it
        return way

    @property
    def given(self) -> str:
        """The field of the one that is given, as the document writes it."""
        return next(to_camel(name) for name in type(self).model_fields if getattr(self, name) is not None)


class KubeconfigFile(NamedTuple):
    """A kubeconfig that the operator names. Empty path: $KUBECONFIG, else ~/.kube/config. Empty context: the current one."""

    path: str
    context: str = ""


class SeedFile(NamedTuple):
    """The node list of a simulated cluster that the operator names."""

    path: str


OperatorAccess = KubeconfigFile | SeedFile


@dataclass(frozen=True, slots=True)
class Outdated:
    """What a revision says of a cluster and this release no longer accepts. Nothing is opened for it."""

    message: str


def kept(name: str, model: type[S], stored: Any) -> S | Outdated:
    """What a revision keeps of a Cluster document: its access or its spec."""
    if not is_subdomain(name):
        return Outdated(f"Cluster {name!r} was committed under a name that is no DNS name: rename it, then commit it again")
    try:
        return model.model_validate(stored)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(map(str, first["loc"]))
        why = NO_FILES.get(first["loc"][-2:], first["msg"].removeprefix("Value error, "))
        return Outdated(f"Cluster/{name} was committed with {path}, which is no longer accepted: {why}; then commit it again")
