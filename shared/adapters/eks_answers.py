"""What EKS answers, as far as versions go: the shapes of its API, checked where they come in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.ports import Unavailable

M = TypeVar("M", bound=BaseModel)
CLASSIFICATIONS = {"STANDARD_SUPPORT": "supported", "EXTENDED_SUPPORT": "deprecated", "UNSUPPORTED": "deprecated"}


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class EksUpgradePolicy(_Answer):
    """Of a cluster: whether it stays on a version through its extended support."""

    support_type: str = Field(default="STANDARD", alias="supportType")


class EksIssue(_Answer):
    """What EKS finds wrong with a cluster or a node group."""

    code: str = ""
    message: str = ""


class EksHealth(_Answer):
    """Of DescribeCluster and DescribeNodegroup."""

    issues: tuple[EksIssue, ...] = ()

    def __str__(self) -> str:
        return "; ".join(f"{issue.code}: {issue.message}" for issue in self.issues)


class EksCluster(_Answer):
    """Of DescribeCluster."""

    version: str
    status: str
    upgrade_policy: EksUpgradePolicy = Field(default=EksUpgradePolicy(), alias="upgradePolicy")
    health: EksHealth = EksHealth()

    @property
    def well(self) -> bool:
        """Whether EKS finds nothing wrong with it."""
        return self.status == "ACTIVE" and not self.health.issues


class EksNodeGroup(_Answer):
    """Of DescribeNodegroup."""

    version: str
    status: str
    release_version: str = Field(default="", alias="releaseVersion")
    ami_type: str = Field(default="", alias="amiType")
    health: EksHealth = EksHealth()

    @property
    def well(self) -> bool:
        """Whether EKS finds nothing wrong with it."""
        return self.status == "ACTIVE" and not self.health.issues


class EksInsightStatus(_Answer):
    """Of an insight: PASSING, WARNING, ERROR or UNKNOWN, and why."""

    status: str
    reason: str = ""


class EksInsight(_Answer):
    """Of ListInsights: what EKS found that concerns an upgrade."""

    name: str = ""
    kubernetes_version: str = Field(default="", alias="kubernetesVersion")
    insight_status: EksInsightStatus = Field(alias="insightStatus")


class EksParameter(_Answer):
    """Of an update: what it sets."""

    type: str = ""
    value: str = ""


class EksUpdateError(_Answer):
    """Of an update that failed."""

    code: str = Field(default="", alias="errorCode")
    message: str = Field(default="", alias="errorMessage")


class EksUpdate(_Answer):
    """Of DescribeUpdate."""

    id: str = ""
    status: str
    type: str = ""
    created: datetime = Field(alias="createdAt")
    params: tuple[EksParameter, ...] = ()
    errors: tuple[EksUpdateError, ...] = ()

    def leads_to(self, kind: str, version: str) -> bool:
        """Whether it was to move to this `Version` or `ReleaseVersion`."""
        return self.type == "VersionUpdate" and any((each.type, each.value) == (kind, version) for each in self.params)


class SsmParameter(_Answer):
    """Of Systems Manager's GetParametersByPath."""

    name: str = Field(alias="Name")
    value: str = Field(alias="Value")


class EksVersion(_Answer):
    """Of DescribeClusterVersions. The older `status` says the same in lower case."""

    version: str = Field(alias="clusterVersion")
    version_status: str = Field(default="", alias="versionStatus")
    status: str = ""
    end_of_standard_support: datetime | None = Field(default=None, alias="endOfStandardSupportDate")
    end_of_extended_support: datetime | None = Field(default=None, alias="endOfExtendedSupportDate")

    @property
    def classification(self) -> str:
        """How it counts."""
        return CLASSIFICATIONS.get((self.version_status or self.status).upper(), "supported")

    def end(self, policy: EksUpgradePolicy) -> datetime | None:
        """When it expires for a cluster: with its standard support, or where the cluster has extended support with that."""
        extended = self.end_of_extended_support if policy.support_type == "EXTENDED" else None
        end = extended or self.end_of_standard_support
        return end.astimezone(UTC) if end else None


def read(model: type[M], answer: object, what: str) -> M:
    """An answer of EKS. Raises Unavailable naming what was asked for and the field that is not as it should be."""
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        odd = Unavailable(f"EKS answered something unexpected about {what}: {wrong}")
        odd.reason = "UnexpectedAnswer"
        raise odd from error
