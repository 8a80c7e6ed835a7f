"""Why a version is updated, stays or is stuck, and how an update step ended."""

from __future__ import annotations

from shared.domain.reasons.reason import Group, Reason


def sentence(code: str) -> str:
    """What a code of these means and what to do, in one sentence; empty for a code that is not among them (a newer server's)."""
    return VERSIONS.reasons[code].sentence if code in VERSIONS.reasons else ""


VERSIONS = Group(
    title="Versions",
    said_by="`hullmark versions plan|why|calendar`, the notices about versions, the steps of `update_versions`",
    modules=(
        "shared/domain/versions/",
        "shared/domain/waves/",
        "shared/ledger/fleets.py",
        "shared/adapters/eks_versions.py",
        "shared/adapters/gardener.py",
        "shared/work/deferrals.py",
        "shared/work/holds.py",
        "shared/work/version_holds.py",
        "shared/work/provider_updates.py",
        "functions/version_apply/",
        "functions/version_check/",
    ),
    reasons={
        # why an update happens
        "VersionNotInProfile": Reason("the profile does not offer this version (any more), or a filter of the pool removes it"),
        "VersionExpired": Reason("the version has expired: an update is forced"),
        "AutoUpdateConfigured": Reason("a newer version is available and automatic updates are on"),
        # why nothing happens
        "AlreadyLatest": Reason("there is no newer version for automatic updates"),
        "AutoUpdateDisabled": Reason("the version has not expired and automatic updates are off; it is updated when it expires"),
        "OnlyPreviewAvailable": Reason("everything newer is still in preview", "wait, or choose a preview version by hand"),
        "NotYetAvailable": Reason("everything newer is not released yet", "wait"),
        "AllTargetsExpired": Reason("everything newer has expired", "add a newer version to the profile"),
        "OutsideWindow": Reason("the maintenance window is closed; the update happens when it opens"),
        "ClusterDeleting": Reason("the cluster is being deleted"),
        "CustomImage": Reason(
            "the launch template of the EKS node group names its image: its versions are its owner's to move",
            "give the launch template a new image",
        ),
        "ImagesUnreadable": Reason(
            "the releases of the EKS node group's image can't be read; Kubernetes versions go on",
            "let the role read them (`ssm:GetParametersByPath`); the notice `fleet.unreadable` has the cause",
        ),
        "VersionNotDeclared": Reason("the document names no version; the server chooses one when the cluster is created"),
        "UpdateRunning": Reason("the provider is still busy with an earlier change of this cluster"),
        # why an update that is decided does not go yet
        "ComesWithKubernetes": Reason("the EKS node group's Kubernetes update brings the newest image, so its nodes are replaced once"),
        "SkewTooWide": Reason(
            "pools run kubelets that are too old for the version that the control plane is due to move to; the provider would refuse it",
            "move the pools first; the message names them and what becomes of them",
        ),
        "Frozen": Reason("a Freeze document holds versions; the message names it", "wait until it ends; `hullmark freeze list`"),
        "Paused": Reason("somebody paused the whole fleet; the message says who and why", "`hullmark resume`"),
        "NotReady": Reason(
            "the provider says that the cluster is not ready for the next version", "follow its advice; the next check looks again"
        ),
        "Deferred": Reason(
            "somebody put the updates of this cluster off; the message says who and why",
            "wait, or `hullmark versions defer CLUSTER --cancel`; what expires goes in its last window before all the same",
        ),
        # why a forced update goes although something would keep it back
        "ExpiryBeforeStage": Reason("the version expires before the update's stage begins: it goes in the last window before that"),
        "ExpiryBeforeDeferralEnds": Reason("the version expires before its deferral ends: the update goes in the last window before that"),
        "ForcedDespiteFreeze": Reason("the freeze lets forced updates go: its document says `allowForced: true`"),
        "AutoUpdateOff": Reason(
            "automatic updates of this EKS or GKE cluster are off: what is due is announced, and nothing is forced",
            "update it yourself, or set `autoUpdate` in its Cluster document",
        ),
        "NoMaintenanceWindow": Reason(
            "this EKS or GKE cluster has no maintenance window: what is due is announced only", "give its Cluster document a `timeWindow`"
        ),
        "MaintenanceExclusion": Reason("a maintenance exclusion of the GKE cluster holds", "wait until it ends, or remove it"),
        # why it cannot happen
        "NoConsecutiveMinor": Reason(
            "the profile has no version in the next minor, and minors are never skipped", "add one to the profile"
        ),
        "NoSupportedSuccessor": Reason(
            "no version of the next minor is supported when this minor ends", "classify one as supported, or let this minor live longer"
        ),
        "ForcedToExpired": Reason("the forced update leads to a version that has expired itself", "add one that has not"),
        "NoHigherMinor": Reason("the image has no version in a higher minor of this major", "add one, or change its updateStrategy"),
        "NoHigherMajor": Reason("the image has no version in a higher major", "add one, or change its updateStrategy"),
        "EndOfLife": Reason("the image has nothing newer", "move the pool to another machine image, or add a version to the profile"),
        "InvalidVersion": Reason("a version is malformed", "correct the document that holds it"),
        "UnknownMachineType": Reason("the profile has no such machine type", "correct the pool or the profile"),
        "UnknownMachineImage": Reason("the profile has no such machine image", "correct the pool or the profile"),
        "CloudProfileNotFound": Reason("the documents hold no such CloudProfile", "add it, or correct the cluster's reference"),
        "InvalidDeferral": Reason(
            "updates can't be put off like that: a deferral has a reason, and ends in the future, within 90 days", "correct it"
        ),
        # what became of a step
        "UpdateBegun": Reason(
            "EKS or GKE has accepted the update and works on it: until it is through, everything else waits (`UpdateRunning`)"
        ),
        "AlreadyDone": Reason("an earlier delivery of the same message moved the version"),
        "CredentialsBindingMissing": Reason(
            "the Shoot names a SecretBinding, which its next version forbids, and no CredentialsBinding leads to the same Secret",
            "create one and name it in the Shoot",
        ),
        "ControlPlaneBehind": Reason(
            "a pool never goes above its control plane, which is still older", "find out why the control plane was not updated"
        ),
        "ClusterNotFound": Reason("no fleet has a cluster of this name", "check whether it was deleted or renamed"),
        "AmbiguousCluster": Reason(
            "the update names no fleet and several have a cluster of this name; none of them was changed",
            "wait for the next check, which names the fleet",
        ),
        "ProviderUpdateFailed": Reason(
            "the provider accepted the update and did not carry it out; the message has its words. The next window tries again",
            "put right what it says",
        ),
        "Stopped": Reason("the action was stopped before this step", "wait for the next check, or retry"),
    },
)
