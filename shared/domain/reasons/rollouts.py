"""Why a rollout waits, stops, or is refused."""

from __future__ import annotations

from shared.domain.reasons.reason import Group, Reason

ROLLOUTS = Group(
    title="Rollouts",
    said_by="rollouts (`hullmark rollout status`, `GET /v1.0/rollouts/ID`), their notices, refused requests",
    modules=(
        "shared/domain/rollouts/",
        "shared/domain/waves/",
        "shared/work/",
        "shared/domain/labels/impact.py",
        "shared/ledger/",
        "functions/",
        "local/",
    ),
    reasons={
        "PlacesUnresolved": Reason(
            "it has just begun: the nodes of a cluster are being assigned to stages",
            causes="nothing, for a moment; longer: a cluster that answers slowly, or a function that does not run",
        ),
        "BatchRunning": Reason(
            "nodes are being written; `hullmark actions show ID` tells how far that is",
            causes="nothing: it takes a third of a second for 200 nodes. For minutes: a slow API server, or a paused action",
        ),
        "Soaking": Reason("a stage is written, or its clusters run the version, and soaks; the next one opens at the time given"),
        "WaitingForStage": Reason(
            "the stage before it is not through yet, the rollout has not begun, or as many are under way as may be; the message says which"
        ),
        "NothingToQualify": Reason(
            "no cluster of an earlier stage has the same profile and minor, so nothing can show how the version is",
            "`hullmark rollout approve ID STAGE`, or put such a cluster into an earlier stage",
        ),
        "StageFailed": Reason(
            "more clusters of an earlier stage failed with the version than `stopWhen.failed` allows; it goes no further, whatever expires",
            "repair them: healthy through the soak, they let it go on; where an update was refused, `hullmark rollout retry ID`",
        ),
        "BudgetSpent": Reason(
            "more clusters of the stage itself failed with the version than `stopWhen.failed` lets pass; no more of them get it",
            "repair them, then `hullmark rollout retry ID`",
        ),
        "AheadOfLaterStages": Reason(
            "the version expires, and the stage leaves it so early that the later ones can see how its clusters do before they have to"
        ),
        "AwaitingApproval": Reason(
            "a stage needs a person's word, before it begins or after its soak; the status says what that lets happen",
            "`hullmark rollout approve ID STAGE`, or `revert`",
            causes="the Rollout document asks for it (`approval: before` or `after`)",
        ),
        "ApprovalExpired": Reason("nobody approved the stage within 30 days", "`hullmark rollout retry ID` waits again; `abort` ends it"),
        "RolloutPaused": Reason("somebody paused it; the message says who and why", "`hullmark rollout resume ID`"),
        "ClusterBehind": Reason(
            "no cluster of the stage answered, or said how its nodes and pods are before they get the change, so the stage shows nothing; "
            "or all else is through, and a cluster that refuses to say so has got nothing",
            "look at the clusters, and at Hullmark's rights there (`examples/rbac.yaml`), then `hullmark rollout retry ID`",
            causes="the API server is down, its address or credentials have changed, or a network policy is in the way",
        ),
        "TooManyFailures": Reason(
            "more nodes of a stage failed than `stopWhen.failed` lets pass",
            "look at the stage's actions; then `hullmark rollout retry ID`, or `revert`",
            causes="a webhook or missing rights refuse the write, or `onConflict: fail` meets others' labels; the stage lists them",
        ),
        "TooMuchImpact": Reason(
            "the labels of the next stage would end more pods of DaemonSets than `stopWhen.impact` lets pass, so it was not opened",
            "`hullmark plan --impact` says which; where it is meant, `hullmark rollout retry ID` lets so many end; else `revert`, `abort`",
            causes="a nodeSelector or required affinity of a DaemonSet goes by a label that changes or goes",
        ),
        "ImpactUnknown": Reason(
            "`stopWhen.impact` is set, and it is not known how many pods the labels of the next stage would end: a cluster does not "
            "answer, or does not let Hullmark list nodes, DaemonSets or pods",
            "grant the role `hullmark-workload-reader` of `examples/rbac.yaml`, then `hullmark rollout retry ID`; a cluster that does "
            "not answer is asked again by itself",
            causes="the role is not bound to the account of `hullmark-rollout`, or the API server is down",
        ),
        "NodesNotReady": Reason(
            "nodes of a stage were Ready before they got the change, and are not now; a second look half a minute later stops it",
            "look at the nodes; `hullmark rollout revert ID`, or `retry ID` once they are Ready or gone",
            causes="pods that the new labels drew to the nodes, or drove away (agents, CNI, storage); or an outage at the same time",
        ),
        "DaemonSetsUnavailable": Reason(
            "nodes of a stage had an available pod of a DaemonSet before they got the change, and have none now: it fails there, or the "
            "new labels send it away; a second look half a minute later stops it",
            "`kubectl get pods -o wide --field-selector spec.nodeName=NODE` in its namespace; `hullmark rollout revert ID`, or `retry ID` "
            "once it is back. Where it is meant to leave: a rollout with `daemonSets: false`",
            causes="a selector, an affinity or a toleration of the DaemonSet goes by labels that changed; or its update failed",
        ),
        "PodsUnschedulable": Reason(
            "the scheduler has no node for more pods of a namespace than when the stage began; a second look half a minute later stops it",
            "`kubectl get events -n NAMESPACE --field-selector reason=FailedScheduling` says why; `hullmark rollout revert ID`, or "
            "`retry ID` once they are scheduled",
            causes="pods that select nodes by labels that the change took away; or an autoscaler that is about to bring nodes",
        ),
        "HealthUnknown": Reason(
            "nobody can say how a stage's nodes are, or the pods that are looked at: a cluster does not answer or does not let Hullmark "
            "list them, nodes have no Ready condition, or none is Ready",
            "look at the cluster, its nodes, and Hullmark's rights there (`examples/rbac.yaml`); it goes on once it knows. "
            "`hullmark rollout abort ID` or `revert ID` ends it",
            causes="the API server does not answer, its listing lacks the condition Ready, the role for pods is missing, or the nodes "
            "were down before",
        ),
        "EmptyStage": Reason(
            "no node of any cluster is meant by a stage, so nothing opened: an empty stage would show nothing",
            "`hullmark rollout abort ID`, correct the stage's selector, commit, and start anew",
            causes="a typing error in the selector, or labels that nodes do not carry yet",
        ),
        "NobodyThere": Reason(
            "none of a stage's nodes is in its cluster, so the stage shows nothing",
            "choose nodes that are there; `hullmark rollout retry ID` once they are",
            causes="nodes of the design that are not installed yet, or names with another domain than in the cluster",
        ),
        "Stopped": Reason("a batch's action was stopped: another rollout or action took the cluster over", "start a rollout anew"),
        "BatchRefused": Reason(
            "a batch's request was refused; a notice says why",
            "correct that, then `hullmark rollout retry ID`",
            causes="documents or clusters changed between the opening and the request",
        ),
        "BatchNotRecorded": Reason("a message asks for a batch that its rollout never opened; nothing was done"),
        "RolloutRunning": Reason(
            "a rollout is on its way in the cluster, and the request would overtake it",
            "wait for it, or end it: `hullmark rollout abort ID` or `revert ID`; a newer rollout, or the request, may take its place with "
            "`--supersede`",
        ),
        "ActionRunning": Reason(
            "a site action still works on the cluster, or another rollout is just being closed", "wait until it has ended, or stop it"
        ),
        "NoClusterMeant": Reason(
            "a Rollout with `start: onCommit` does not start: its `clusters` mean none of the documents' clusters", "correct its `clusters`"
        ),
        "NothingToRelease": Reason(
            "a Rollout with `start: onCommit` does not start: nothing changes for the nodes of its clusters",
            "nothing; `hullmark rollout start` starts it all the same",
        ),
        "RejectedBefore": Reason(
            "a Rollout with `start: onCommit` does not start: the documents say what a revision said that was taken back",
            "correct the documents and commit; `hullmark rollout start` starts it all the same",
        ),
        "UnknownRollout": Reason("there is no rollout of this id, or it has no such batch", "`hullmark rollout status` lists them"),
        "UnknownRolloutDocument": Reason(
            "the newest revision has no Rollout document of this name", "name one that the message lists, or commit one"
        ),
        "NotForVersions": Reason(
            "the word says nothing to a rollout for versions: a Kubernetes version cannot be taken back", "do what the message says"
        ),
        "WrongPhase": Reason("the rollout can't do that in its present phase", "do what the message says"),
        "ImpactRequired": Reason("an approval says which impact it is for", "`hullmark rollout approve ID STAGE` shows it and names it"),
        "ImpactChanged": Reason(
            "what an approval would let happen is not what was shown any more; nothing was approved. The message says what changed",
            "`hullmark rollout status ID` shows the new impact; approve that",
        ),
        "ReasonRequired": Reason("a pause needs a reason", "say why"),
    },
)
