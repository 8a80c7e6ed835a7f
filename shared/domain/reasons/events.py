"""Why a cluster event is ignored, and why a result is not recorded."""

from __future__ import annotations

from shared.domain.reasons.reason import Group, Reason

EVENTS = Group(
    title="Events and results",
    said_by="the logs of `node_event` and `result_rollup`",
    modules=(
        "shared/domain/labels/events.py",
        "functions/node_event/",
        "functions/node_apply/",
        "functions/version_apply/",
        "functions/result_rollup/",
    ),
    reasons={
        "NoChange": Reason("the event is not about a change of a node"),
        "NotANode": Reason("the event is about another kind of object", "narrow the source's filter to nodes, to save messages"),
        "NotTheNodeItself": Reason("the call was for a subresource of a node, such as its status"),
        "MetadataUntouched": Reason("the patch does not touch labels and annotations"),
        "CallFailed": Reason("the API server refused the call, so nothing changed"),
        "ClusterUnknown": Reason("no Cluster document describes the cluster that the event names", "commit one, or narrow the log sink"),
        "NeverPlanned": Reason(
            "a part or a result came for an action or a part that does not exist; nothing is written or recorded",
            "see who else publishes on `node-applies`, `version-updates` and `results`",
        ),
    },
)
