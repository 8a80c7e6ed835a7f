"""Why a cluster, or the provider of its versions, can't be used."""

from __future__ import annotations

from shared.domain.reasons.reason import Group, Reason

CLUSTERS = Group(
    title="Clusters and providers",
    said_by="everything that talks to a cluster or a provider: outcomes, requests, the command line",
    modules=("shared/adapters/", "shared/ports.py", "shared/wiring.py", "shared/world.py", "shared/ledger/"),
    reasons={
        "Unavailable": Reason(
            "no answer, or a temporary error: connection, timeout, 429, 5xx", "wait, it is retried automatically; then retry the action"
        ),
        "Refused": Reason("the provider refused and gave no code", "do what the message says"),
        "ClusterError": Reason("the cluster gave some other answer", "do what the message says"),
        "ClusterUnknown": Reason(
            "the cluster is not configured, or not in a way that is supported", "correct `HULLMARK_CLUSTER` or its document"
        ),
        "NodeNotFound": Reason("the cluster has no node of this name and uid", "plan again"),
        "Conflict": Reason("an unforced write met keys of other owners", "see `onConflict` of the policy"),
        "Stale": Reason("the object changed since it was read", "try again"),
        "BadRequest": Reason("the API server does not understand the request", "report it, with the message"),
        "Unauthorized": Reason("there are no credentials, or they are not accepted", "log in, or mount valid credentials"),
        "Forbidden": Reason("the identity may not do this", "grant it the rights of `examples/rbac.yaml`"),
        "NotFound": Reason("the API server or the provider has no such object", "correct the name"),
        "AlreadyExists": Reason("there is an object of that name already", "choose another name"),
        "Invalid": Reason("the API server refuses a value", "correct the label that the message names"),
        "CertificateUntrusted": Reason(
            "the server's certificate is not signed by the authority that is configured, or is for another host",
            "correct `certificate-authority-data` and `server`",
        ),
        "ProxyUnsupported": Reason("only http:// proxies are supported", "use one, or none"),
        "KubeconfigMissing": Reason("there is no kubeconfig file", "set `KUBECONFIG`, or mount one"),
        "KubeconfigInvalid": Reason("the kubeconfig can't be used as it is", "correct what the message names"),
        "NotInCluster": Reason("in-cluster access is configured, but this does not run in a pod", "run it in a pod, or name a kubeconfig"),
        "NoSuchEndpoint": Reason(
            "the GKE cluster does not have the endpoint that its document names", "open it as the message says, or name another one"
        ),
        "UpdateRunning": Reason("the provider is busy with an earlier change of this cluster", "wait for the next check"),
        "RecordUnreadable": Reason(
            "an object in the store is damaged; the message has its key",
            "restore it from a backup or an older version of the object, then retry",
        ),
        "FieldUnreadable": Reason(
            "a field of the live cluster or profile can't be read, so nothing of it is changed", "correct the field that the message names"
        ),
        "UnexpectedAnswer": Reason(
            "the provider answered in a way that is not understood; its other fleets go on",
            "look at what the message names; if the provider is sound, report it",
        ),
        "NotReady": Reason("the provider says that the cluster or the node group is not well", "put right what the message names"),
        "CustomImage": Reason("the EKS node group runs an image of its own", "give its launch template a new image"),
    },
)
