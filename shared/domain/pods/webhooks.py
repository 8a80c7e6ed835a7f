"""The MutatingWebhookConfiguration that calls pod_binding: made so that scheduling never depends on it, and judged by the same table."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from shared.domain.documents.kinds import PodLabelPolicySpec
from shared.domain.pods.copying import copying, holds

NAME = "hullmark-pod-topology"
WEBHOOK = "pod-topology.hullmark.dev"
TIMEOUT_SECONDS = 2
LONGEST_SECONDS = 3
"""Above this a webhook that hangs is felt: every binding, and with it the scheduler's queue, waits so long."""
NAMESPACE_KEY = "kubernetes.io/metadata.name"
"""The label that the API server itself puts on every namespace."""
GATE = "PodTopologyLabelsAdmission"
IN_TREE = frozenset({"topology.kubernetes.io/zone", "topology.kubernetes.io/region"})
"""What Kubernetes' own plugin copies where the gate is on (plugin/pkg/admission/podtopologylabels)."""
RESOURCES: Mapping[str, str] = {
    "pods/binding": "pods that a scheduler binds get nothing",
    "bindings": "pods bound by the legacy `POST …/bindings` get nothing: no other rule and no plugin sees them",
    "pods": "pods created with a node name (static pods' mirrors, some operators) get nothing",
}
"""What has to be watched on CREATE, and who goes without where it isn't."""
ONLY_PLACED = "request.resource.resource != 'pods' || request.subResource == 'binding' || has(object.spec.nodeName)"
"""CEL: a pod that waits for a scheduler costs no call."""

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Client:
    """Where the API server finds the function: a URL, or a service (`namespace/name`, port), with the PEM of the CA that signed it."""

    url: str = ""
    service: str = ""
    port: int = 443
    path: str = "/"
    ca: str = ""
    cert_manager: str = ""
    """`namespace/name` of a cert-manager Certificate that fills the CA in, instead of `ca`."""

    def problems(self) -> list[str]:
        """What the API server or TLS would refuse later, silently."""
        listed = []
        if bool(self.url) == bool(self.service):
            listed.append("give --url or --service, one of them")
        url = urlsplit(self.url)
        if self.url and (url.scheme != "https" or not url.hostname or url.query or url.fragment or url.username):
            listed.append(f"--url {self.url}: the API server takes https://host[:port][/path], without user, query and fragment")
        if self.service and not re.fullmatch(r"[a-z0-9-]+/[a-z0-9-]+", self.service):
            listed.append(f"--service {self.service}: namespace/name[:port]")
        if self.service and not (self.ca or self.cert_manager):
            listed.append("--service needs --ca-file (or --cert-manager): no public CA signs names of services, every call would fail")
        if self.ca and ("-----BEGIN CERTIFICATE-----" not in self.ca or "PRIVATE KEY" in self.ca):
            listed.append("--ca-file: a PEM file of certificates, and of nothing else, is wanted")
        return listed

    def config(self) -> dict[str, Any]:
        """`clientConfig`."""
        bundle = {"caBundle": base64.b64encode(self.ca.encode()).decode()} if self.ca else {}
        if self.url:
            return {"url": self.url, **bundle}
        namespace, name = self.service.split("/")
        return {"service": {"namespace": namespace, "name": name, "port": self.port, "path": self.path}, **bundle}


def bundle(authorities: Iterable[str]) -> str:
    """PEMs of several CAs as one: the API server trusts a certificate that any of them signed, so that none has to be replaced in a gap."""
    return "".join(dict.fromkeys(f"{pem.strip()}\n" for pem in authorities if pem.strip()))


def manifest(client: Client, policies: Sequence[PodLabelPolicySpec] = (), *, conditions: bool = True) -> dict[str, Any]:
    """The configuration to apply. Namespaces that no policy means are left out, and the one that the service itself runs in.

    `conditions`: whether the server knows matchConditions (1.28).
    """
    expressions = _namespaces(policies, client.service.partition("/")[0])
    annotations = {"annotations": {"cert-manager.io/inject-ca-from": client.cert_manager}} if client.cert_manager else {}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/managed-by": "hullmark"}, **annotations},
        "webhooks": [
            {
                "name": WEBHOOK,
                "admissionReviewVersions": ["v1"],
                "clientConfig": client.config(),
                "failurePolicy": "Ignore",
                "matchPolicy": "Equivalent",
                "reinvocationPolicy": "IfNeeded",
                "sideEffects": "None",
                "timeoutSeconds": TIMEOUT_SECONDS,
                "namespaceSelector": {"matchExpressions": expressions} if expressions else {},
                **({"matchConditions": [{"name": "only-placed-pods", "expression": ONLY_PLACED}]} if conditions else {}),
                "rules": [
                    {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [*RESOURCES], "scope": "Namespaced"}
                ],
            }
        ],
    }


def _namespaces(policies: Sequence[PodLabelPolicySpec], home: str) -> list[dict[str, Any]]:
    """The selector's expressions for the namespaces that any enabled policy means."""
    enabled = [policy for policy in policies if policy.enabled]
    named = {name for p in enabled for name in (*(p.namespaces.include or ()), *(p.namespaces.exclude or ()))}
    meant = {name for name in named if any(holds(p.namespaces, name) for p in enabled)}
    if enabled and all(p.namespaces.include for p in enabled):
        return [{"key": NAMESPACE_KEY, "operator": "In", "values": sorted(meant)}]
    left_out = (named - meant) | ({home} - meant - {""})
    return [{"key": NAMESPACE_KEY, "operator": "NotIn", "values": sorted(left_out)}] if left_out else []


# --- judging a configuration -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What is known of the API server that the configuration is for."""

    version: str = ""
    """`v1.35.4`; empty: unknown, then only what holds for every version is judged."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates as the server runs (its /metrics) or as the operator says."""

    @property
    def minor(self) -> tuple[int, int] | None:
        """(1, 35); None where the version is unknown."""
        match = re.match(r"v?(\d+)\.(\d+)", self.version)
        return (int(match[1]), int(match[2])) if match else None

    @property
    def copies_labels(self) -> bool | None:
        """Whether a Binding's labels reach the pod: the gate, on by default from 1.35. None: unknown."""
        return self.gates.get(GATE, None if self.minor is None else self.minor >= (1, 35))

    @property
    def plugin(self) -> bool:
        """Whether Kubernetes copies zone and region itself (1.33's alpha has the wrong keys)."""
        return bool(self.copies_labels) and (self.minor is None or self.minor >= (1, 34))


@dataclass(frozen=True, slots=True)
class Case:
    """One webhook of a configuration, with all that is judged together."""

    configuration: Object
    webhook: Object
    policies: Sequence[PodLabelPolicySpec]
    server: ServerFacts
    given: bool = False
    """Whether a person handed it over as pod_binding's, whatever its name."""

    def covers(self, resource: str) -> bool:
        """Whether a rule of this webhook watches CREATE of `resource` in the core group's v1."""
        main, _, sub = resource.partition("/")
        rules: Iterable[Mapping[str, Any]] = self.webhook.get("rules") or ()
        names = {resource, f"{main}/*", f"*/{sub}", "*/*"} if sub else {main, "*", "*/*"}
        wanted = (("operations", {"CREATE", "*"}), ("apiGroups", {"", "*"}), ("apiVersions", {"v1", "*"}), ("resources", names))
        return any(
            all(not values.isdisjoint(rule.get(name) or ()) for name, values in wanted) and rule.get("scope", "*") in ("*", "Namespaced")
            for rule in rules
        )

    @property
    def binds(self) -> bool:
        """Whether this webhook stands between a scheduler and a pod."""
        return self.covers("pods/binding") or self.covers("bindings")

    @property
    def fails(self) -> bool:
        """Whether its absence refuses requests: v1's default when nothing is said."""
        return str(self.webhook.get("failurePolicy", "Fail")) != "Ignore"

    def selects(self, namespace: str) -> bool:
        """Whether namespaceSelector takes a namespace that has no label but its own name."""
        return _selects(self.webhook.get("namespaceSelector") or {}, {NAMESPACE_KEY: namespace})

    @property
    def scoped(self) -> bool:
        """Whether namespaceSelector leaves anything out."""
        selector = self.webhook.get("namespaceSelector") or {}
        return bool(selector.get("matchLabels") or selector.get("matchExpressions"))

    @property
    def ours(self) -> bool:
        """Whether this is pod_binding's own webhook, and not somebody else's that sees bindings too."""
        return (
            self.given
            or str(self.webhook.get("name", "")).endswith(".hullmark.dev")
            or str(_metadata(self.configuration).get("name", "")).startswith("hullmark")
        )

    @property
    def enabled(self) -> list[PodLabelPolicySpec]:
        """The policies in force."""
        return [policy for policy in self.policies if policy.enabled]


def _metadata(configuration: Object) -> Object:
    return configuration.get("metadata") or {}


def _selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """A label selector's answer, as the API server gives it."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions") or ():
        value, values = labels.get(expression["key"]), expression.get("values") or ()
        held = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[expression["operator"]]
        if not held:
            return False
    return True


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing found: `error` is a configuration to refuse, `warning` one to know about."""

    configuration: str
    webhook: str
    check: str
    severity: Literal["error", "warning"]
    message: str


Judge = Callable[[Case], str | None]


def _wrong_api(case: Case) -> str | None:
    if case.configuration.get("apiVersion") != "admissionregistration.k8s.io/v1":
        return f"apiVersion {case.configuration.get('apiVersion')!r}: the server takes admissionregistration.k8s.io/v1"
    if "v1" not in (case.webhook.get("admissionReviewVersions") or ()):
        return "admissionReviewVersions lacks v1, the only one that is answered: every call would fail"
    return None


def _object_selector(case: Case) -> str | None:
    selector = case.webhook.get("objectSelector") or {}
    if not case.binds or not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return None
    return "objectSelector sees the Binding's labels, not its pod's, and a Binding has none: pods are missed in silence; select namespaces"


def _fail_everywhere(case: Case) -> str | None:
    if not (case.binds and case.fails) or case.scoped:
        return None
    said = "failurePolicy Fail" if "failurePolicy" in case.webhook else "no failurePolicy, which means Fail,"
    return f"{said} without a namespaceSelector: while the webhook is down no pod of the cluster binds; set Ignore"


def _fail_system(case: Case) -> str | None:
    if not (case.binds and case.fails and case.scoped and case.selects("kube-system")):
        return None
    return "failurePolicy Fail reaches kube-system: the pods that would bring the webhook back can't bind either; exclude it, or set Ignore"


def _home(case: Case) -> str:
    """The namespace of the service that answers; empty for a URL."""
    return str(((case.webhook.get("clientConfig") or {}).get("service") or {}).get("namespace") or "")


def _fail_on_itself(case: Case) -> str | None:
    home = _home(case)
    if not (home and case.fails and (case.binds or case.covers("pods")) and case.selects(home)):
        return None
    return (
        f"failurePolicy Fail selects {home}, where the webhook itself runs: once it is down, its own pods can't come back; exclude {home}"
    )


def _fail_scoped(case: Case) -> str | None:
    if not (case.binds and case.fails and case.scoped) or case.selects("kube-system") or _fail_on_itself(case):
        return None
    return "failurePolicy Fail: pods of the selected namespaces don't bind while the webhook is down; labels are not worth that, set Ignore"


def _long_timeout(case: Case) -> str | None:
    timeout = case.webhook.get("timeoutSeconds", 10)
    if not case.binds or timeout <= LONGEST_SECONDS:
        return None
    said = f"timeoutSeconds {timeout}" if "timeoutSeconds" in case.webhook else "no timeoutSeconds, which means 10"
    return f"{said}: a hanging webhook holds each binding so long; an answer takes 1.5 s at most, set {TIMEOUT_SECONDS}"


def _no_ca(case: Case) -> str | None:
    config = case.webhook.get("clientConfig") or {}
    if config.get("url") and not str(config["url"]).startswith("https://"):
        return f"clientConfig.url {config['url']}: the API server calls https:// only"
    if config.get("service") and not config.get("caBundle"):
        annotations = _metadata(case.configuration).get("annotations") or {}
        if "cert-manager.io/inject-ca-from" not in annotations:
            return "a service without caBundle: no public CA signs its name, so every call fails and no pod gets labels"
    return None


def _side_effects(case: Case) -> str | None:
    if case.webhook.get("sideEffects") in ("None", "NoneOnDryRun"):
        return None
    return "sideEffects must be None: the server refuses anything else, and dry runs with it"


def _labels_dropped(case: Case) -> str | None:
    if not case.ours or case.server.copies_labels is not False:
        return None
    labelling = [policy for policy in case.enabled if not policy.as_annotations] if case.policies else [None]
    if not labelling:
        return None
    because = f"its gate {GATE} is off" + ("" if GATE in case.server.gates else " by default before 1.35")
    given = "a PodLabelPolicy" if case.policies else "no PodLabelPolicy is given with -f, so labels are assumed: one"
    said = f"server {case.server.version}".rstrip() + f": {because}, so a Binding's labels never reach the pod"
    return f"{said}; {given} without asAnnotations: true does nothing there"


def _does_nothing_new(case: Case) -> str | None:
    if not case.ours or not case.server.plugin or not case.enabled:
        return None
    keys = copying(case.enabled, None)
    if keys.annotations or keys.labels.fill or not keys.labels.overwrite <= IN_TREE:
        return None
    return (
        "this server copies zone and region itself (PodTopologyLabels, 1.35), and no policy asks for more: a call per binding for nothing"
    )


def _does_the_same(case: Case) -> str | None:
    if not case.ours or not case.server.plugin or _does_nothing_new(case):
        return None
    both = sorted(IN_TREE & copying(case.enabled, None).labels.overwrite)
    return f"{' and '.join(both)}: copied by this server itself as well (PodTopologyLabels); topology may leave them out" if both else None


def _policy_unreached(case: Case) -> str | None:
    missed = sorted({n for p in case.enabled for n in p.namespaces.include or () if holds(p.namespaces, n) and not case.selects(n)})
    return f"a policy means {', '.join(missed)}, which namespaceSelector leaves out" if case.ours and missed else None


def _missing(resource: str) -> Judge:
    return lambda case: None if not case.ours or case.covers(resource) else f"no rule for CREATE of {resource}: {RESOURCES[resource]}"


CHECKS: Sequence[tuple[str, Literal["error", "warning"], Judge]] = (
    ("WrongVersion", "error", _wrong_api),
    ("ObjectSelectorOnBinding", "error", _object_selector),
    ("FailUnscoped", "error", _fail_everywhere),
    ("FailOnKubeSystem", "error", _fail_system),
    ("FailOnItself", "error", _fail_on_itself),
    ("FailScoped", "warning", _fail_scoped),
    ("LongTimeout", "error", _long_timeout),
    ("NoCA", "error", _no_ca),
    ("SideEffects", "error", _side_effects),
    *((f"MissingRule:{resource}", "error", _missing(resource)) for resource in RESOURCES),
    ("BindingLabelsDropped", "error", _labels_dropped),
    ("InTreePluginDoesIt", "error", _does_nothing_new),
    ("InTreePluginOverlaps", "warning", _does_the_same),
    ("PolicyNotReached", "warning", _policy_unreached),
)  # fmt: skip


def judge(
    configurations: Iterable[Object], policies: Sequence[PodLabelPolicySpec], server: ServerFacts, *, given: bool = False
) -> list[CheckResult]:
    """Every check on every webhook that sees bindings or is ours, in the order of the table. `given`: all of them are meant as ours."""
    results = []
    for configuration in configurations:
        for webhook in configuration.get("webhooks") or ():
            case = Case(configuration, webhook, policies, server, given)
            if not (case.binds or case.ours):
                continue
            for name, severity, check in CHECKS:
                if message := check(case):
                    results.append(
                        CheckResult(str(_metadata(configuration).get("name", "")), str(webhook.get("name", "")), name, severity, message)
                    )
    return results
