"""What is wrong with a webhook's configuration, and why a pod got no labels."""

from __future__ import annotations

from shared.domain.reasons.reason import Group, Reason

PODS = Group(
    title="Topology on pods",
    said_by="`hullmark webhook check` (its `check`), `hullmark pods`, the log of `pod_binding`",
    modules=("shared/domain/pods/", "functions/pod_binding/", "local/cli/"),
    reasons={
        "WrongVersion": Reason("the configuration's apiVersion, or that of its reviews, is not v1", "write v1"),
        "ObjectSelectorOnBinding": Reason("an objectSelector looks at the Binding, which has no labels", "select by namespace"),
        "FailUnscoped": Reason("failurePolicy Fail in every namespace: while the webhook is down, no pod binds", "set Ignore"),
        "FailOnKubeSystem": Reason("failurePolicy Fail reaches kube-system", "exclude kube-system, or set Ignore"),
        "FailOnItself": Reason(
            "failurePolicy Fail selects the namespace that the webhook runs in: once it is down, its own pods can't come back",
            "exclude that namespace, or set Ignore",
        ),
        "FailScoped": Reason("failurePolicy Fail in some namespaces; a warning", "set Ignore"),
        "LongTimeout": Reason("a hanging webhook would delay every binding", "set a short timeoutSeconds"),
        "NoCA": Reason("the API server can't verify the webhook", "add caBundle, or let cert-manager inject it"),
        "SideEffects": Reason("the API server takes no other sideEffects", "set None"),
        "MissingRule:pods": Reason("no rule for the creation of pods", "add it: `hullmark webhook manifest` prints one"),
        "MissingRule:pods/binding": Reason("no rule for the creation of bindings", "add it: `hullmark webhook manifest` prints one"),
        "MissingRule:bindings": Reason("no rule for the legacy way of binding", "add it: `hullmark webhook manifest` prints one"),
        "BindingLabelsDropped": Reason("this server does not copy a Binding's labels to its pod", "set asAnnotations: true in the policy"),
        "InTreePluginDoesIt": Reason("this server copies zone and region itself, and no policy asks for more", "delete the configuration"),
        "InTreePluginOverlaps": Reason("this server copies zone and region itself as well; a warning", "remove them from the policy"),
        "PolicyNotReached": Reason("a policy selects a namespace that the configuration excludes; a warning", "widen namespaceSelector"),
        "NothingEnabled": Reason("no PodLabelPolicy is enabled", "enable one, or delete the configuration"),
        "MalformedReview": Reason("the body is not an AdmissionReview", "find out what calls the function"),
        "NotCopied": Reason("the pod binds without its topology labels; the message says why", "`hullmark pods backfill` adds them later"),
    },
)
