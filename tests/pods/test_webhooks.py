"""The configuration that we print, the ones that are refused, and the commands around them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import functions_framework
import pytest
import yaml

from local.cli import main
from shared.adapters.kubernetes import Kubernetes
from shared.domain.pods.webhooks import CHECKS, NAMESPACE_KEY, Client, ServerFacts, bundle, judge, manifest
from tests.kube_apiserver import Pki
from tests.pods.conftest import Real
from tests.pods.reviews import HOST, REGION, ZONE, a_policy
from tests.pods.test_function import MAIN

OURS = Client(url="https://hooks.example/")
V134, V135 = ServerFacts("v1.34.2"), ServerFacts("v1.35.4")


def a_configuration(*policies: Any, **changes: Any) -> dict[str, Any]:
    made = manifest(OURS, policies)
    made["webhooks"][0] = {k: v for k, v in (made["webhooks"][0] | changes).items() if v is not ...}
    return made


def found(configuration: dict[str, Any], *policies: Any, server: ServerFacts = V135, given: bool = True) -> dict[str, str]:
    return {v.check: v.severity for v in judge([configuration], policies, server, given=given)}


# the manifest


def test_the_manifest_is_harmless_by_its_own_checks() -> None:
    assert found(a_configuration(), a_policy(topology=[HOST])) == {}
    assert found(a_configuration(), a_policy(asAnnotations=True), server=V134) == {}


@pytest.mark.parametrize(
    ("policies", "service", "expressions"),
    [
        ([], "", []),
        ([{}], "", []),
        ([{}], "hullmark/pod-binding", [("NotIn", ["hullmark"])]),
        ([{"namespaces": {"include": ["b", "a"]}}], "", [("In", ["a", "b"])]),
        ([{"namespaces": {"include": ["a"]}}, {"namespaces": {"include": ["b"], "exclude": ["b"]}}], "", [("In", ["a"])]),
        ([{"namespaces": {"include": ["a"]}}, {}], "", []),
        ([{"namespaces": {"include": ["a"]}}, {"enabled": False}], "", [("In", ["a"])]),
        ([{"namespaces": {"exclude": ["a", "b"]}}], "", [("NotIn", ["a", "b"])]),
        ([{"namespaces": {"exclude": ["a", "b"]}}, {"namespaces": {"exclude": ["b", "c"]}}], "", [("NotIn", ["b"])]),
        ([{"namespaces": {"exclude": ["a"]}}, {"namespaces": {"include": ["a"]}}], "", []),
        ([{"namespaces": {"include": ["hullmark"]}}], "hullmark/pod-binding", [("In", ["hullmark"])]),
    ],
    ids=str,
)
def test_the_namespaces_are_those_that_a_policy_means(policies: list[Any], service: str, expressions: list[Any]) -> None:
    client = Client(service=service, ca="x") if service else OURS
    selector = manifest(client, [a_policy(**policy) for policy in policies])["webhooks"][0]["namespaceSelector"]
    assert selector.get("matchExpressions", []) == [{"key": NAMESPACE_KEY, "operator": op, "values": names} for op, names in expressions]


@pytest.mark.parametrize(
    ("client", "says"),
    [
        (Client(), "--url or --service"),
        (Client(url="https://a", service="b/c", ca="-----BEGIN CERTIFICATE-----"), "--url or --service"),
        (Client(url="http://a"), "https://"),
        (Client(url="https://a/?x=1"), "https://"),
        (Client(url="https://user@a"), "https://"),
        (Client(service="b/c"), "--ca-file"),
        (Client(service="b", ca="-----BEGIN CERTIFICATE-----"), "namespace/name"),
        (Client(url="https://a", ca="hello"), "PEM"),
        (Client(url="https://a", ca="-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----"), "PEM"),
    ],
)
def test_a_client_that_could_never_be_called_is_refused(client: Client, says: str) -> None:
    assert any(says in problem for problem in client.problems())


def test_several_authorities_are_one_bundle_each_of_them_once(run: Run, tmp_path: Path) -> None:
    old, new = (f"-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----" for name in ("old", "new"))
    (tmp_path / "old.crt").write_text(old)
    (tmp_path / "new.crt").write_text(f"{new}\n\n")
    files = [f"--ca-file={tmp_path}/{name}.crt" for name in ("old", "new", "old")]

    code, out, _ = run("webhook", "manifest", "--service", "hullmark/pod-binding", *files, "-o", "json")

    config = json.loads(out)["webhooks"][0]["clientConfig"]
    assert (code, base64.b64decode(config["caBundle"]).decode()) == (0, f"{old}\n{new}\n")


@pytest.mark.real
def test_while_the_bundle_has_both_authorities_replicas_may_serve_either_certificate(gate_on: Real, tmp_path: Path) -> None:
    gate_on.namespace("rotate")
    authorities = {}
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        authorities[name] = Pki(tmp_path / name, False).ca

    def labelled(pod: str, url: str, *trusted: str) -> bool:
        config = Client(url=url, ca=bundle(authorities[name] for name in trusted)).config()
        with gate_on.webhook(url, a_policy(namespaces={"include": ["rotate"]}), clientConfig=config):
            gate_on.pod(pod, "rotate")
            gate_on.bind(pod, namespace="rotate")
            return HOST in gate_on.labels(pod, "rotate")

    with gate_on.hullmark(Kubernetes(gate_on.kube.access), a_policy()):
        application = functions_framework.create_app("pod_binding", str(MAIN))
        with gate_on.serving(application, tmp_path / "old") as old, gate_on.serving(application, tmp_path / "new") as new:
            assert labelled("before", old, "old")
            assert labelled("old-serves-still", old, "old", "new")
            assert labelled("new-serves-already", new, "old", "new")
            assert labelled("after", new, "new")
            assert not labelled("trusted-too-early", old, "new")


# the checks

BINDING_RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"]}
ALL = ["pods/binding", "bindings", "pods"]
NOT_SYSTEM = {"matchExpressions": [{"key": NAMESPACE_KEY, "operator": "NotIn", "values": ["kube-system"]}]}
NOT_MARKED = {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}
NOT_HOOKS = {"matchExpressions": [{"key": NAMESPACE_KEY, "operator": "NotIn", "values": ["kube-system", "hooks"]}]}
IN_HOOKS = {"clientConfig": {"service": {"namespace": "hooks", "name": "pod-binding"}, "caBundle": "LS0t"}}
OPTED_IN = {"matchLabels": {"topology": "on"}}

REFUSED: list[tuple[str, dict[str, Any], set[str]]] = [
    ("an objectSelector", {"objectSelector": {"matchLabels": {"a": "b"}}}, {"ObjectSelectorOnBinding"}),
    ("an empty objectSelector is none", {"objectSelector": {}}, set()),
    ("Fail everywhere", {"failurePolicy": "Fail"}, {"FailUnscoped"}),
    ("no failurePolicy means Fail", {"failurePolicy": ...}, {"FailUnscoped"}),
    ("Fail with an empty selector", {"failurePolicy": "Fail", "namespaceSelector": {"matchLabels": {}}}, {"FailUnscoped"}),
    ("Fail that reaches kube-system", {"failurePolicy": "Fail", "namespaceSelector": NOT_MARKED}, {"FailOnKubeSystem"}),
    ("Fail without kube-system", {"failurePolicy": "Fail", "namespaceSelector": NOT_SYSTEM}, {"FailScoped"}),
    ("Fail where opted in", {"failurePolicy": "Fail", "namespaceSelector": OPTED_IN}, {"FailScoped"}),
    ("Fail that reaches the webhook itself", {"failurePolicy": "Fail", "namespaceSelector": NOT_SYSTEM, **IN_HOOKS}, {"FailOnItself"}),
    ("Fail beside the webhook itself", {"failurePolicy": "Fail", "namespaceSelector": NOT_HOOKS, **IN_HOOKS}, {"FailScoped"}),
    ("Ignore that reaches the webhook itself", {"namespaceSelector": NOT_SYSTEM, **IN_HOOKS}, set()),
    ("a long timeout", {"timeoutSeconds": 10}, {"LongTimeout"}),
    ("no timeout means ten seconds", {"timeoutSeconds": ...}, {"LongTimeout"}),
    ("three seconds are borne", {"timeoutSeconds": 3}, set()),
    ("no bindings, no pods", {"rules": [BINDING_RULE]}, {"MissingRule:bindings", "MissingRule:pods"}),
    ("UPDATE only", {"rules": [BINDING_RULE | {"operations": ["UPDATE"], "resources": ALL}]}, {f"MissingRule:{r}" for r in ALL}),
    ("another group", {"rules": [BINDING_RULE | {"apiGroups": ["apps"], "resources": ALL}]}, {f"MissingRule:{r}" for r in ALL}),
    ("cluster scope", {"rules": [BINDING_RULE | {"scope": "Cluster", "resources": ALL}]}, {f"MissingRule:{r}" for r in ALL}),
    ("wildcards cover", {"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]}, set()),
    ("pods/* covers binding, not pods", {"rules": [BINDING_RULE | {"resources": ["pods/*", "bindings"]}]}, {"MissingRule:pods"}),
    ("* covers no subresource", {"rules": [BINDING_RULE | {"resources": ["*"]}]}, {"MissingRule:pods/binding"}),
    ("no rules", {"rules": ...}, {f"MissingRule:{r}" for r in ALL}),
    ("plain http", {"clientConfig": {"url": "http://a"}}, {"NoCA"}),
    ("a service without a CA", {"clientConfig": {"service": {"namespace": "a", "name": "b"}}}, {"NoCA"}),
    ("v1beta1 reviews", {"admissionReviewVersions": ["v1beta1"]}, {"WrongVersion"}),
    ("side effects", {"sideEffects": "Unknown"}, {"SideEffects"}),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_dangerous_configurations_are_found(changes: dict[str, Any], expected: set[str]) -> None:
    assert set(found(a_configuration(**changes), a_policy(topology=[HOST]))) == expected


SERVERS: list[tuple[str, ServerFacts, list[dict[str, Any]], dict[str, str]]] = [
    ("before 1.35 labels are dropped", V134, [{}], {"BindingLabelsDropped": "error"}),
    ("without policies labels are assumed", V134, [], {"BindingLabelsDropped": "error"}),
    ("annotations arrive", V134, [{"asAnnotations": True}], {}),
    ("one labelling policy is enough", V134, [{"asAnnotations": True}, {}], {"BindingLabelsDropped": "error"}),
    ("a disabled one is not", V134, [{"asAnnotations": True}, {"enabled": False}], {}),
    ("the gate switched on", ServerFacts("v1.34.2", {"PodTopologyLabelsAdmission": True}), [{"topology": [HOST]}], {}),
    ("1.33's plugin has other keys", ServerFacts("v1.33.6", {"PodTopologyLabelsAdmission": True}), [{"topology": [ZONE]}], {}),
    ("the gate switched off", ServerFacts("v1.35.4", {"PodTopologyLabelsAdmission": False}), [{}], {"BindingLabelsDropped": "error"}),
    ("an unknown server", ServerFacts(), [{}], {}),
    ("zone and region are in the tree", V135, [{"topology": [ZONE, REGION]}], {"InTreePluginDoesIt": "error"}),
    ("zone alone too", V135, [{"topology": [ZONE]}], {"InTreePluginDoesIt": "error"}),
    ("hostname is not", V135, [{}], {"InTreePluginOverlaps": "warning"}),
    ("extra keys are not", V135, [{"topology": [ZONE], "extra": ["rack"]}], {"InTreePluginOverlaps": "warning"}),
    ("annotations are not", V135, [{"topology": [ZONE], "asAnnotations": True}], {}),
]


@pytest.mark.parametrize(("server", "policies", "expected"), [row[1:] for row in SERVERS], ids=[row[0] for row in SERVERS])
def test_what_the_server_does_itself_or_drops_is_found(
    server: ServerFacts, policies: list[dict[str, Any]], expected: dict[str, str]
) -> None:
    assert found(a_configuration(), *[a_policy(**policy) for policy in policies], server=server) == expected


def test_a_policy_whose_namespace_is_left_out_is_found() -> None:
    policy = a_policy(topology=[HOST], namespaces={"include": ["shop"]})
    assert found(a_configuration(namespaceSelector={"matchLabels": {NAMESPACE_KEY: "other"}}), policy) == {"PolicyNotReached": "warning"}


def test_in_a_cluster_other_peoples_webhooks_are_judged_where_they_stand_before_bindings_only() -> None:
    theirs = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": "mesh"}}
    hook = {"name": "inject.mesh.io", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"url": "https://a"}}
    pods_only = theirs | {"webhooks": [hook | {"rules": [BINDING_RULE | {"resources": ["pods"]}]}]}
    bindings = theirs | {"webhooks": [hook | {"rules": [BINDING_RULE]}]}
    assert found(pods_only, given=False) == {}
    assert found(bindings, given=False) == {"FailUnscoped": "error", "LongTimeout": "error"}


def test_every_check_is_shown_by_a_test() -> None:
    shown = {name for _, _, names in REFUSED for name in names} | {name for *_, names in SERVERS for name in names} | {"PolicyNotReached"}
    assert shown == {name for name, _, _ in CHECKS}


# the commands

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        printed = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return code, printed.out, printed.err

    return command


POLICY = """\
apiVersion: hullmark.dev/v1
kind: PodLabelPolicy
metadata: {name: shop}
spec: {extra: [example.com/*], namespaces: {include: [shop]}, asAnnotations: true}
"""


def test_manifest_prints_yaml_that_check_accepts(run: Run, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    code, out, _ = run("webhook", "manifest", "--url", "https://hooks.example", "--cluster", "prod", "-f", str(tmp_path / "policy.yaml"))
    assert code == 0
    (webhook,) = yaml.safe_load(out)["webhooks"]
    assert webhook["clientConfig"] == {"url": "https://hooks.example/prod"}
    assert webhook["namespaceSelector"] == {"matchExpressions": [{"key": NAMESPACE_KEY, "operator": "In", "values": ["shop"]}]}
    (tmp_path / "webhook.yaml").write_text(out)
    code, out, _ = run("webhook", "check", "-f", str(tmp_path), "--server-version", "v1.30.4", "-o", "json")
    assert (code, json.loads(out)) == (0, {"ok": True, "server": "v1.30.4", "findings": []})


def test_check_refuses_with_exit_4_and_says_why(run: Run, tmp_path: Path) -> None:
    (tmp_path / "webhook.json").write_text(json.dumps(a_configuration(failurePolicy="Fail", timeoutSeconds=30)))
    code, out, _ = run("webhook", "check", "-f", str(tmp_path), "-o", "json")
    answer = json.loads(out)
    assert (code, answer["ok"], [f["check"] for f in answer["findings"]]) == (4, False, ["FailUnscoped", "LongTimeout"])
    code, out, _ = run("webhook", "check", "-f", str(tmp_path))
    assert code == 4
    assert "FailUnscoped" in out


def test_policies_with_dangerous_keys_are_refused_as_validate_refuses_them(run: Run, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY.replace("[example.com/*]", "[rack, app]"))
    for command in (("webhook", "manifest", "--url", "https://a"), ("webhook", "check"), ("validate",), ("pods", "backfill")):
        code, out, err = run(*command, "-f", str(tmp_path))
        assert code == 1
        assert "spec.extra[1]: a node's `app` would become its pods' own" in out + err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("webhook", "manifest"), "--url or --service"),
        (("webhook", "manifest", "--service", "a/b:x", "--cert-manager", "a/c"), "namespace/name[:port]"),
        (("webhook", "check"), "nothing to check"),
        (("webhook", "check", "--context", "c", "--kubeconfig", "/none"), "/none"),
        (("webhook", "check", "--feature-gate", "X"), "NAME=true or NAME=false"),
    ],
    ids=str,
)
def test_what_is_missing_is_named(run: Run, arguments: tuple[str, ...], says: str) -> None:
    code, _, err = run(*arguments)
    assert code == 1
    assert says in err


@pytest.mark.real
def test_a_live_configuration_and_the_servers_own_gate_are_judged(gate_off: Real, gate_on: Real, run: Run) -> None:
    for real, expected in ((gate_off, {"BindingLabelsDropped"}), (gate_on, {"FailUnscoped"})):
        changes = {"failurePolicy": "Fail"} if real is gate_on else {}
        with real.webhook("https://127.0.0.1:1", **changes):
            code, out, _ = run("webhook", "check", "--kubeconfig", str(real.kube.kubeconfig()), "--context", "admin", "-o", "json")
            answer = json.loads(out)
            assert code == 4
            assert answer["server"] == "v1.35.4"
            assert {f["check"] for f in answer["findings"] if f["webhook"] == "pod-topology.hullmark.dev"} == expected


@pytest.mark.real
def test_backfill_shows_what_bound_pods_lack_and_writes_it_only_when_told(gate_on: Real, run: Run, tmp_path: Path) -> None:
    gate_on.namespace("fill")
    gate_on.pod("old", "fill", labels={"team": "pods"})
    gate_on.pod("waiting", "fill")
    gate_on.bind("old", namespace="fill")
    (tmp_path / "policy.yaml").write_text(
        POLICY.replace("[shop]", "[fill]").replace("asAnnotations: true", "").replace("example.com/*", "example.com/*, team")
    )
    backfill = ("pods", "backfill", "-f", str(tmp_path), "--kubeconfig", str(gate_on.kube.kubeconfig()), "-o", "json")

    before = gate_on.labels("old", "fill")
    code, out, _ = run(*backfill)
    lacks = json.loads(out)["pods"]["fill/old"]["labels"]
    assert (code, set(json.loads(out)["pods"])) == (2, {"fill/old"})
    assert lacks == {HOST: "n1", "example.com/rack": "r7"}
    assert gate_on.labels("old", "fill") == before

    code, out, _ = run(*backfill, "--write")
    assert (code, json.loads(out)["written"]) == (0, 1)
    assert gate_on.labels("old", "fill") == before | lacks
    code, out, _ = run(*backfill)
    assert (code, json.loads(out)["pods"]) == (0, {})
