"""Why a request is refused, and how an action and its nodes end."""

from __future__ import annotations

from shared.domain.reasons.reason import Group, Reason

REQUESTS = Group(
    title="Requests",
    said_by="the API (`details.messageList[].reason`), the command line, the notice `request.refused`",
    modules=(
        "functions/api/",
        "functions/relabel_request/",
        "shared/domain/actions.py",
        "shared/domain/rollouts/decisions.py",
        "shared/work/intake.py",
        "shared/work/rollouts.py",
        "shared/work/comparison.py",
        "shared/work/nodes.py",
        "shared/work/holds.py",
        "shared/domain/holds.py",
        "shared/world.py",
        "shared/ports.py",
        "local/",
    ),
    reasons={
        "Malformed": Reason(
            "the message is not a valid request: not JSON, or a field is unknown or wrong", "correct it and publish it again"
        ),
        "NoCommittedRevision": Reason(
            "there are no committed documents", "`hullmark documents stage -f …`, then `hullmark documents commit`"
        ),
        "NoSiteAction": Reason(
            "single nodes were named, but no action on the whole site has run yet",
            "`hullmark relabel --all`, or adopt a deployed site: `hullmark documents tag N site-action-success`",
        ),
        "Frozen": Reason(
            "a Freeze document holds changes in the cluster; the message says until when and why",
            "wait, or change the document; a dry run, a sweep and a rollout's revert pass",
        ),
        "Paused": Reason("somebody paused the whole fleet; the message says who and why", "`hullmark resume`"),
        "NewerReleased": Reason(
            "the request names a revision that is older than what is released to its nodes",
            "name a newer one, or go back with `hullmark documents restore N`",
        ),
        "UnknownNode": Reason("neither the documents nor the cluster know a node of this name", "correct the name"),
        "ClusterUnknown": Reason(
            "the cluster is ambiguous, or there is no way to reach it",
            "name one of the revision's Cluster documents, or set `HULLMARK_CLUSTER`",
        ),
        "TooManyClusters": Reason("more clusters are meant than one action takes", "choose some of them by their labels, then the others"),
        "UnknownParameter": Reason("the action takes no such parameter", "choose one that the message lists"),
        "UnsupportedAction": Reason("no such action can be requested", "see [actions.md](actions.md)"),
        "UnknownAction": Reason("there is no action with this id", "`hullmark actions list` shows the existing ones"),
        "UnknownRevision": Reason("there is no revision with this number", "`hullmark documents list` shows the existing ones"),
        "UnknownTag": Reason("the revision does not carry this tag", "`hullmark documents list` shows those it has"),
        "TagStays": Reason("what Hullmark recorded with this tag happened, so the tag can't be removed"),
        "RevisionRejected": Reason(
            "the revision was taken back, and nothing releases it until a person lifts that",
            "relabel with a newer revision; or `hullmark documents untag N rejected`, then ask again",
        ),
        "NothingStaged": Reason("no collection differs from the newest revision, so there is nothing to commit", "stage documents first"),
        "WrongState": Reason("the action can't do that in its current state", "check it: `hullmark actions show ID`"),
        "InvalidLabel": Reason("Kubernetes would refuse the key or the value", "correct it as the message says"),
        "DiffersFromDocuments": Reason(
            "a label was set by hand to another value than the documents declare; a warning",
            "change the documents, or the next sweep sets it back",
        ),
        "Validation": Reason("the documents were accepted; `messageList` has warnings about them"),
        "Unauthenticated": Reason("the caller's identity can't be verified", "call with an identity token, at the address that checks it"),
        "ReadsOnly": Reason(
            "the address is read-only, and the call would change something", "call the other address, as a member of `api_invokers`"
        ),
        "Forbidden": Reason(
            "the local server does not accept this request from this caller", "call it from this machine, as the message says"
        ),
        "SettingsError": Reason("the service is not configured", "set the variable that the message names"),
        "StoreError": Reason("the store can't be read or written", "fix what the message says, then try again"),
        "BusError": Reason("the bus did not confirm the message, so the request failed", "send it again: nothing runs twice"),
    },
)

OUTCOMES = Group(
    title="Outcomes",
    said_by="actions and their nodes (`hullmark actions show`, `GET /v1.0/actions/ID/outcome`), notices, the status page",
    modules=(
        "functions/node_apply/",
        "functions/node_event/",
        "functions/result_rollup/",
        "functions/api/",
        "functions/version_apply/",
        "shared/domain/actions.py",
        "shared/domain/labels/planning.py",
        "shared/domain/labels/impact.py",
        "shared/domain/labels/plans.py",
        "shared/domain/labels/node_states.py",
        "shared/domain/labels/reach.py",
        "shared/domain/labels/bound.py",
        "shared/work/planning.py",
        "shared/work/losses.py",
        "shared/domain/outcomes.py",
        "shared/ports.py",
    ),
    reasons={
        "LossLimit": Reason(
            "the node would lose labels that no release took from it, and more nodes would in this hour than the limits let pass; it waits",
            "find out who removed or added the labels; if it is meant, `hullmark relabel --all --accept-removals N`, or name the nodes",
        ),
        "TooManyRemovals": Reason(
            "labels would be removed from more nodes than the limits let pass, or from all that have any; nothing was written",
            "look at the keys and nodes in the message; if that is meant, ask again with `--accept-removals N`",
        ),
        "TooManyTakeovers": Reason(
            "other managers' values would be replaced on more nodes than the limits let pass; nothing was written",
            "look at the keys and managers in the message; if that is meant, ask again with `--accept-takeovers N`",
        ),
        "TooManyChanges": Reason(
            "more nodes would change than the Limits document lets pass; nothing was written",
            "look at the keys and nodes in the message; if that is meant, ask again with `--accept-changes N`",
        ),
        "DryRun": Reason("a dry run: this would be written"),
        "StalePlan": Reason(
            "the documents or the cluster changed since the plan was made that the action is bound to; nothing was written",
            "make a new plan; the message says what differs",
        ),
        "NotAdopted": Reason(
            "our field manager holds a label that no release of this store declared: another Hullmark's, perhaps; it was left alone",
            "if it is yours to remove, relabel with `--adopt`; two Hullmarks on one cluster are better told apart by `HULLMARK_OWNER`",
        ),
        "StartupTaint": Reason(
            "a startup taint stays on the node, so that pods wait; the message says which and why",
            "relabel the node with a revision whose policy names the taint; or take it off, and out of the node's template",
        ),
        "Drift": Reason("the node had other values; the message names them and their owner; they are replaced"),
        "NodeNotFound": Reason("the cluster has no node of this name", "remove it from the documents, or wait until it joins"),
        "Conflict": Reason(
            "another owner set a key to a different value, and the policy (or LabelRules) says `onConflict: skip` or `fail`",
            "decide who owns the key: the message names it, both values, its field manager, the policy, and the managed pool that sets it",
        ),
        "PolicyConflict": Reason(
            "two policies of the same priority want different values for one key of this node", "give one of them a higher priority"
        ),
        "SecondaryDeclared": Reason(
            "the documents declare the secondary key of an alias pair, which follows its primary", "declare the primary key instead"
        ),
        "ReleasedSince": Reason(
            "another revision, or an override, was released to the node after the action had planned it; the message names it, "
            "and it was applied instead",
        ),
        "NotReleased": Reason(
            "nothing is released to the node: no action has, or the one that did was stopped",
            "`hullmark relabel --all`, or `hullmark relabel NODE`",
        ),
        "NewerRevisionWaits": Reason(
            "the node is in sync with what is released to it, and a newer revision is committed that nobody has released to it",
            "`hullmark plan` shows what it would change; `hullmark relabel` releases it",
        ),
        "Stale": Reason("the object kept changing while it was being written", "retry the action"),
        "PartialSuccess": Reason(
            "one of several clusters: some of its nodes failed, or are missing", "`hullmark actions show ID`, with the id in the message"
        ),
        "NodesFailed": Reason(
            "one of several clusters: none of its nodes could be brought in sync", "`hullmark actions show ID`, with the id in the message"
        ),
        "Stopped": Reason("the action was stopped before this was done", "retry the action"),
        "Expired": Reason("there was no result by the action's deadline", "retry the action; look for what held it up"),
        "RecordUnreadable": Reason(
            "a record in the store can't be read; the message has its key", "restore the object from a backup, then retry the action"
        ),
        "TimeBudgetSpent": Reason(
            "the part's time was spent before this was reached, at its last delivery too; the message has the last cause that was seen",
            "look at why the cluster answers slowly, then retry the action",
        ),
        "NotTried": Reason(
            "so many nodes in a row got no answer that the part stopped asking; the message says how many, and the last cause",
            "look at the cluster, then retry the action",
        ),
        "NoOutcome": Reason("the node's part ended without an outcome for this node", "retry the action"),
        "DeadLettered": Reason(
            "a function failed on this message at every delivery", "read that function's log, fix the cause, retry the action"
        ),
    },
)
