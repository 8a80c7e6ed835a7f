"""Every kind of notice: its name, who publishes it and when, and what is in it. `docs/notices.md` is written from this table.

A notice is a CloudEvent on the topic `notices` with the type `dev.hullmark.NAME.v1`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NoticeKind:
    """One kind of notice. `subject` and `data` say what those fields of the CloudEvent hold."""

    name: str
    when: str
    sent_by: Sequence[str]
    subject: str
    data: str

    @property
    def type(self) -> str:
        """The CloudEvent's type."""
        return f"dev.hullmark.{self.name}.v1"

    def id(self, identity: str) -> str:
        """The CloudEvent's id: the same for every delivery of the same news, so readers can drop repeats."""
        return f"{self.name}/{identity}"


ACTION_FINISHED = NoticeKind(
    "action.finished",
    "An action has ended, whatever the result.",
    ["result_rollup"],
    "the action's id",
    "`id`, `name`, `cluster`, `revision`, `requested_by`, `dry_run`, `result`, `reason`, `message`, `counts` by outcome; "
    "`attention`: the first hundred nodes that failed, are missing, were skipped or stopped; `attention_total`: their number; "
    "`impact`: what it does to how many nodes, of an action on more than named nodes",
)
REQUEST_REFUSED = NoticeKind(
    "request.refused",
    "A message on `relabel-requests` was refused, so there is no action.",
    ["relabel_request"],
    "the message's identity, or its id",
    "`problems`: `reason` and `message` of every one; `request`: the first 2,000 bytes of the request",
)
NODE_FAILED = NoticeKind(
    "node.failed",
    "A node could not be repaired after a cluster event. No action waits for it; the next sweep tries again.",
    ["result_rollup"],
    "the first such node",
    "`revision`, `failed`: the outcomes",
)
MESSAGE_LOST = NoticeKind(
    "message.lost",
    "A message that belongs to no action was given up after its last delivery.",
    ["result_rollup"],
    "the subscription that gave it up",
    "`message`: the cause; `body`: the first 2,000 bytes of the message",
)
CONFLICT_DETECTED = NoticeKind(
    "conflict.detected",
    "Hullmark and another writer change the same labels of a node in turn, or the node's policies contradict each other. "
    "Sent once; Hullmark leaves the node alone until the next window of repairs or the sweep.",
    ["node_event"],
    "`CLUSTER/NODE`",
    "`cluster`, `node`, `message`: which keys, who else writes them, and the managed pool that sets them",
)
LOSS_HELD = NoticeKind(
    "loss.held",
    "Nodes would lose labels that no release took from them (others' labels vanished, say), more of them in an hour than the limits let "
    "pass: they wait. Sent once, until an hour passes without.",
    ["relabel_request", "node_event"],
    "the cluster",
    "`cluster`; `nodes`: the first hundred of those that asked last; `count`: their number; `of`: the cluster's nodes; `message`: what to "
    "do",
)
VERSION_EXPIRING = NoticeKind(
    "version.expiring",
    "A version in use expires in 90, 60, 30, 14, 7 or 1 days. Sent once for each threshold.",
    ["version_check"],
    "the cluster",
    "`cluster`, `fleet` (empty: a Shoot document), `component`, `subject` (`kubernetes` or `machineImage`), `version`, `expires`, "
    "`daysLeft`",
)
VERSION_EXPIRED = NoticeKind(
    "version.expired",
    "A version in use has expired. Sent once.",
    ["version_check"],
    "the cluster",
    "as for `version.expiring`; `daysLeft` is negative",
)
VERSION_BEGUN = NoticeKind(
    "version.begun",
    "EKS or GKE has accepted an update and works on it (`UpdateBegun`); its end is told by `version.updated` or `version.failed`.",
    ["version_apply"],
    "the cluster",
    "as for `version.updated`",
)
VERSION_UPDATED = NoticeKind(
    "version.updated",
    "A version was updated: the Shoot has it, or EKS or GKE says that it is through.",
    ["version_apply", "version_check"],
    "the cluster",
    "`cluster`, `fleet`, `action`, `component`, `subject`, `image`, `from`, `to`, `kind`, `reason` (why it was due); `outcome`, "
    "`code` (the outcome's reason), `message`",
)
VERSION_FAILED = NoticeKind(
    "version.failed",
    "A version could not be updated, its cluster is gone, or the provider gave the update up (`ProviderUpdateFailed`).",
    ["version_apply", "version_check"],
    "the cluster",
    "as for `version.updated`",
)
UPDATE_SKIPPED = NoticeKind(
    "update.skipped",
    "An update is due but can't happen. From `version_check` once for each cause; from `version_apply` when an update is no longer due.",
    ["version_check", "version_apply"],
    "the cluster",
    "from `version_check`: `cluster`, `fleet`, `component`, `subject`, `version`, `reason`, `message`, `advice`; from `version_apply`: "
    "as for `version.updated`",
)
FLEET_UNREADABLE = NoticeKind(
    "fleet.unreadable",
    "A fleet cannot be opened or read, or a cluster or profile of it: its versions are left alone, all others go on. Sent once a day while "
    "that lasts.",
    ["version_check"],
    "the fleet, or the cluster or profile",
    "`fleet`; `part`: the cluster's or profile's name, empty for the whole fleet; `reason`, `message`: the cause",
)
ROLLOUT_CHANGED = NoticeKind(
    "rollout.changed",
    "A rollout has begun, opened a batch, stopped, been taken back or ended, or somebody gave it a word.",
    ["rollout"],
    "the rollout's id",
    "`id`, `name`, `revision`, `phase`, `verb`, `by`, `reason`, `message`",
)
ROLLOUT_WAITS = NoticeKind(
    "rollout.waits",
    "A rollout waits for a person. Sent at once, and again after 1 and 7 days.",
    ["rollout"],
    "the rollout's id",
    "`id`, `name`, `revision`, `reason`, `message`, `since`, `until`, `who`, `impact`: the digest that an approval names",
)
NOTICES = (
    ROLLOUT_CHANGED,
    ROLLOUT_WAITS,
    ACTION_FINISHED,
    REQUEST_REFUSED,
    NODE_FAILED,
    MESSAGE_LOST,
    CONFLICT_DETECTED,
    LOSS_HELD,
    VERSION_EXPIRING,
    VERSION_EXPIRED,
    VERSION_BEGUN,
    VERSION_UPDATED,
    VERSION_FAILED,
    UPDATE_SKIPPED,
    FLEET_UNREADABLE,
)
