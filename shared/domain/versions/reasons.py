"""What makes an update be attempted, and Gardener's own sentences for it. The codes are in shared.domain.reasons.versions."""

from __future__ import annotations

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
