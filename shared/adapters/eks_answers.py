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


class EksCluster(_Answer):
    """Of DescribeCluster."""

    version: str
    status: str


class EksNodeGroup(_Answer):
    """Of DescribeNodegroup."""

    version: str
    status: str
    ami_type: str = Field(default="", alias="amiType")


class EksVersion(_Answer):
    """Of DescribeClusterVersions. The older `status` says the same in lower case."""

    version: str = Field(alias="clusterVersion")
    version_status: str = Field(default="", alias="versionStatus")
    status: str = ""
    end_of_standard_support: datetime | None = Field(default=None, alias="endOfStandardSupportDate")

    @property
    def classification(self) -> str:
        """How it counts."""
        return CLASSIFICATIONS.get((self.version_status or self.status).upper(), "supported")

    @property
    def end(self) -> datetime | None:
        """When it expires."""
        return self.end_of_standard_support.astimezone(UTC) if self.end_of_standard_support else None


def read(model: type[M], answer: object, what: str) -> M:
    """An answer of EKS. Raises Unavailable naming what was asked for and the field that is not as it should be."""
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        odd = Unavailable(f"EKS answered something unexpected about {what}: {wrong}")
        odd.reason = "UnexpectedAnswer"
        raise odd from error
