"""Why a version moves, stays or is stuck: one code each, with a sentence that tells a person what is so and what to do."""

from __future__ import annotations

REASONS: dict[str, str] = {
    # why an update happens
    "VersionNotInProfile": "the profile does not offer this version (any more), or a filter of the pool removes it",
    "VersionExpired": "the version has expired: an update is forced",
    "AutoUpdateConfigured": "a newer version is there and automatic updates are on",
    # why nothing happens
    "AlreadyLatest": "nothing newer is offered that automatic updates may move to",
    "AutoUpdateDisabled": "the version is still good and automatic updates are off; it moves only when it expires",
    "OnlyPreviewAvailable": "everything newer is still in preview; wait, or choose a preview version by hand",
    "NotYetAvailable": "everything newer is not released yet",
    "AllTargetsExpired": "everything newer has expired; the profile needs a newer version",
    "OutsideWindow": "the maintenance window is shut; the update happens when it opens",
    "ClusterDeleting": "the cluster is being deleted",
    "VersionNotDeclared": "the document names no version; the server chooses one when the cluster is created",
    "UpdateRunning": "the provider is still busy with an earlier change of this cluster",
    # why it cannot happen
    "NoConsecutiveMinor": "the profile has no version in the next minor, and minors are never skipped: add one to the profile",
    "NoHigherMinor": "the image has no version in a higher minor of this major: add one, or change its updateStrategy",
    "NoHigherMajor": "the image has no version in a higher major: add one, or change its updateStrategy",
    "EndOfLife": "the image has nothing newer: move the pool to another machine image, or add a version to the profile",
    "InvalidVersion": "a version cannot be read: correct the document that holds it",
    "UnknownMachineType": "the profile has no such machine type: correct the pool or the profile",
    "UnknownMachineImage": "the profile has no such machine image: correct the pool or the profile",
    "CloudProfileNotFound": "the documents hold no such CloudProfile: add it, or correct the cluster's reference",
}
"""Code to sentence."""

MISSING, EXPIRED, AUTO_UPDATE = "missing", "expired", "autoUpdate"
TRIGGERS: dict[str, str] = {MISSING: "VersionNotInProfile", EXPIRED: "VersionExpired", AUTO_UPDATE: "AutoUpdateConfigured"}
"""What makes an update be attempted (docs/versions.md §2), and its code."""

KUBERNETES_REASONS: dict[str, str] = {
    MISSING: "Version does not exist in CloudProfile",
    EXPIRED: "Kubernetes version expired - force update required",
    AUTO_UPDATE: "Automatic update of Kubernetes version configured",
}
IMAGE_REASONS: dict[str, str] = {
    MISSING: "Version does not exist in CloudProfile",
    EXPIRED: "Machine image version expired - force update required (image update strategy: {strategy})",
    AUTO_UPDATE: "Automatic update of the machine image version is configured (image update strategy: {strategy})",
}
"""Gardener's own sentences (docs/versions.md §6)."""
