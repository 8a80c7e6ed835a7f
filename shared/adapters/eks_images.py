"""The images that AWS makes for node groups of EKS, and their releases as AWS publishes them: public parameters of Systems Manager.

A release is made for one minor of Kubernetes, so an image's name has it: `AL2023_x86_64_STANDARD-1.33`. AWS names no end of a release:
none ever expires. Windows' releases (`1.33-2025.09.10`) are no versions that could be compared, and a CUSTOM image is its owner's.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.adapters.eks_answers import SsmParameter
from shared.domain.versions.catalogue import Image, ImageVersion
from shared.domain.versions.classification import PREVIEW
from shared.domain.versions.semver import InvalidVersion, parse

CUSTOM = "CUSTOM"
"""The type of a node group whose launch template names an image."""
_LINUX, _BOTTLEROCKET = "/aws/service/eks/optimized-ami/{minor}/amazon-linux-", "/aws/service/bottlerocket/aws-k8s-{minor}"
PATHS = {
    "AL2_x86_64": f"{_LINUX}2",
    "AL2_x86_64_GPU": f"{_LINUX}2-gpu",
    "AL2_ARM_64": f"{_LINUX}2-arm64",
    "AL2023_x86_64_STANDARD": f"{_LINUX}2023/x86_64/standard",
    "AL2023_ARM_64_STANDARD": f"{_LINUX}2023/arm64/standard",
    "AL2023_x86_64_NEURON": f"{_LINUX}2023/x86_64/neuron",
    "AL2023_x86_64_NVIDIA": f"{_LINUX}2023/x86_64/nvidia",
    "AL2023_ARM_64_NVIDIA": f"{_LINUX}2023/arm64/nvidia",
    "BOTTLEROCKET_x86_64": f"{_BOTTLEROCKET}/x86_64",
    "BOTTLEROCKET_ARM_64": f"{_BOTTLEROCKET}/arm64",
    "BOTTLEROCKET_x86_64_FIPS": f"{_BOTTLEROCKET}-fips/x86_64",
    "BOTTLEROCKET_ARM_64_FIPS": f"{_BOTTLEROCKET}-fips/arm64",
    "BOTTLEROCKET_x86_64_NVIDIA": f"{_BOTTLEROCKET}-nvidia/x86_64",
    "BOTTLEROCKET_ARM_64_NVIDIA": f"{_BOTTLEROCKET}-nvidia/arm64",
}
"""By the type of a node group's image, where AWS lists its releases."""
VERSION = ("release_version", "image_version")
"""What a release's version is called below its folder: Amazon Linux's, Bottlerocket's."""
NEWEST = ("recommended", "latest")
"""The folder of the release that AWS recommends."""


def image_name(ami_type: str, minor: str) -> str | None:
    """The image that node groups of this type and minor run; None where its releases are not ours to choose, or cannot be compared."""
    return f"{ami_type}-{minor}" if ami_type in PATHS else None


def image_of(ami_type: str, minor: str, listed: Iterable[SsmParameter], running: Iterable[str]) -> Image:
    """An image with the releases that AWS lists, and those that node groups run. One above the recommended release is a preview:
    AWS puts a release there before it recommends it, and goes back where one was bad.
    """
    offered, newest = set(running), ""
    for parameter in listed:
        *_, folder, name = parameter.name.split("/")
        if name in VERSION and _readable(parameter.value):
            offered.add(parameter.value)
            newest = parameter.value if folder in NEWEST else newest
    versions = (ImageVersion(each, classification=PREVIEW if _above(each, newest) else None) for each in sorted(offered, reverse=True))
    return Image(image_name(ami_type, minor) or ami_type, tuple(versions))


def _readable(version: str) -> bool:
    try:
        return bool(parse(version))
    except InvalidVersion:
        return False


def _above(version: str, newest: str) -> bool:
    return bool(newest) and _readable(version) and parse(version).key > parse(newest).key
