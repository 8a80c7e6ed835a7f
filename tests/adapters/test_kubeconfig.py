"""Credentials as people keep them: every kind opens, and every mistake is refused with file and context."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from shared.adapters import kubeconfig
from shared.adapters.kubeconfig import from_kubeconfig, in_cluster
from shared.ports import Refused, Unavailable

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def written(folder: Path, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None, name: str = "config") -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "site",
        "contexts": [{"name": "site", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path = folder / name
    path.write_text(json.dumps(config))
    return str(path)


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_token_becomes_a_bearer_header(tmp_path: Path) -> None:
    access = from_kubeconfig(written(tmp_path, {"token": "secret"}, {"certificate-authority-data": base64_of(PEM)}))
    assert access.authorization() == "Bearer secret"
    assert (access.server, access.ca, access.certificate) == ("https://api.example:6443", PEM, None)


def test_a_token_file_is_read_beside_the_kubeconfig_and_read_again_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("shared.adapters.kubeconfig.time.monotonic", lambda: now)
    (tmp_path / "token").write_text("first\n")
    access = from_kubeconfig(written(tmp_path, {"tokenFile": "token"}))
    assert access.authorization() == "Bearer first"
    (tmp_path / "token").write_text("second\n")
    assert access.authorization() == "Bearer first"
    now += kubeconfig.TOKEN_FILE_SECONDS
    assert access.authorization() == "Bearer second"


def test_a_password_becomes_a_basic_header(tmp_path: Path) -> None:
    assert from_kubeconfig(written(tmp_path, {"username": "me", "password": "pw"})).authorization() == "Basic bWU6cHc="


def test_client_certificates_come_from_data_or_from_files_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "me.crt").write_text("certificate")
    (tmp_path / "me.key").write_text("key")
    as_data = {"client-certificate-data": base64_of("certificate"), "client-key-data": base64_of("key")}
    for user in ({"client-certificate": "me.crt", "client-key": "me.key"}, as_data):
        assert from_kubeconfig(written(tmp_path, user)).certificate == ("certificate", "key")


def test_the_clusters_own_settings_are_taken(tmp_path: Path) -> None:
    cluster = {"insecure-skip-tls-verify": True, "tls-server-name": "other.example", "proxy-url": "http://proxy:3128"}
    access = from_kubeconfig(written(tmp_path, cluster=cluster))
    assert (access.verify, access.server_name, access.proxy) == (False, "other.example", "http://proxy:3128")


def test_impersonation_becomes_headers(tmp_path: Path) -> None:
    user = {"token": "t", "as": "jane", "as-groups": ["ops"], "as-uid": "7", "as-user-extra": {"example.com/why": ["test"]}}
    assert from_kubeconfig(written(tmp_path, user)).headers == {
        "Impersonate-User": "jane",
        "Impersonate-Group": "ops",
        "Impersonate-Uid": "7",
        "Impersonate-Extra-example.com%2Fwhy": "test",
    }


def test_impersonation_beyond_what_we_can_send_is_refused_and_not_dropped(tmp_path: Path) -> None:
    for user in ({"as": "jane", "as-groups": ["a", "b"]}, {"as-groups": ["a"]}, {"as": "j", "as-user-extra": {"k": ["1", "2"]}}):
        with pytest.raises(Refused, match="support"):
            from_kubeconfig(written(tmp_path, user))


@pytest.mark.parametrize(
    ("server", "environment", "proxy"),
    [
        ("https://api.example", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://api.example", {"https_proxy": "p:1"}, "http://p:1"),
        ("https://api.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "x.org, .example"}, ""),
        ("https://api.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, ""),
        ("https://api.examples", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example"}, "http://p:1"),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("http://api.example", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://api.example", {}, ""),
    ],
)
def test_the_environments_proxy_is_used_as_kubectl_uses_it(tmp_path: Path, server: str, environment: dict[str, str], proxy: str) -> None:
    assert from_kubeconfig(written(tmp_path, cluster={"server": server}), environment=environment).proxy == proxy


def test_several_kubeconfigs_are_merged_and_the_first_to_say_something_wins(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    first = written(tmp_path, {"token": "first"}, name="first")
    second = written(tmp_path / "b", {"token": "second"}, {"server": "https://second"})
    environment = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "absent"), first, second])}
    access = from_kubeconfig(environment=environment)
    assert (access.server, access.authorization()) == ("https://api.example:6443", "Bearer first")


def test_a_context_is_chosen_by_name(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        "contexts: [{name: a, context: {cluster: one}}, {name: b, context: {cluster: two}}]\n"
        "clusters: [{name: one, cluster: {server: 'https://one'}}, {name: two, cluster: {server: 'https://two/'}}]\n"
    )
    assert from_kubeconfig(str(path), "b").server == "https://two"
    with pytest.raises(Refused, match="no current-context"):
        from_kubeconfig(str(path))
    with pytest.raises(Refused, match=re.escape(f"kubeconfig {path}, context 'z': no 'z' in contexts (there: a, b)")):
        from_kubeconfig(str(path), "z")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a mapping"),
        ("[1, 2]", "not a mapping"),
        ("a: b: c", "line 1: not YAML: a colon where no key can stand"),
        ("\x00", "characters are not allowed"),
        ("clusters: [3]", "an entry of clusters is not"),
        ("current-context: x\n", "no 'x' in contexts (there: none)"),
        ("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]", "no 'c' in clusters"),
        ("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\nclusters: [{name: c}]", "the cluster has no server"),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'https://s'}}]",
            "no 'u' in users",
        ),
    ],
)
def test_a_broken_kubeconfig_is_refused_with_its_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(Refused, match=re.escape(message)) as refused:
        from_kubeconfig(str(path))
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("user", "cluster", "message"),
    [
        ({}, {"certificate-authority-data": "%%%"}, "certificate-authority-data is not base64"),
        ({}, {"certificate-authority": "absent.crt"}, "absent.crt: No such file"),
        ({"client-certificate-data": "eA=="}, {}, "only one of client-certificate and client-key"),
        ({"client-certificate-data": "%", "client-key-data": "%"}, {}, "client-certificate-data is not base64"),
    ],
)
def test_broken_credentials_are_refused_with_file_and_context(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], message: str
) -> None:
    path = written(tmp_path, user, cluster)
    with pytest.raises(Refused, match=re.escape(message)) as refused:
        from_kubeconfig(path)
    assert f"kubeconfig {path}, context 'site'" in str(refused.value)


def test_a_missing_kubeconfig_is_refused_with_the_place_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=f"no kubeconfig at {tmp_path}/none"):
        from_kubeconfig(str(tmp_path / "none"))
    with pytest.raises(Refused, match="HULLMARK_KUBECONFIGS or KUBECONFIG"):
        from_kubeconfig(environment={"KUBECONFIG": str(tmp_path / "none")})


# -- through the kubernetes package


def a_plugin(folder: Path, script: str) -> dict[str, Any]:
    path = folder / "plugin"
    path.write_text(f"#!{sys.executable}\nimport datetime, json, os, time\n{script}")
    path.chmod(0o755)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "args": [], "interactiveMode": "Never"}}


TOKEN = """
count = int(open('count').read()) + 1 if os.path.exists('count') else 1
open('count', 'w').write(str(count))
until = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds={seconds})).strftime('%Y-%m-%dT%H:%M:%SZ')
status = {{'token': f'token-{{count}}', 'expirationTimestamp': until}}
print(json.dumps({{'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential', 'status': status}}))
"""


def test_a_plugins_token_is_kept_while_it_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    access = from_kubeconfig(written(tmp_path, a_plugin(tmp_path, TOKEN.format(seconds=3600))))
    assert [access.authorization(), access.authorization()] == ["Bearer token-1", "Bearer token-1"]


def test_a_plugins_token_is_renewed_when_it_has_expired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    access = from_kubeconfig(written(tmp_path, a_plugin(tmp_path, TOKEN.format(seconds=-3600))))
    first = access.authorization()
    assert first.startswith("Bearer token-")
    later = time.monotonic() + kubeconfig.PACKAGE_SECONDS
    monkeypatch.setattr("shared.adapters.kubeconfig.time.monotonic", lambda: later)
    assert access.authorization() != first


def test_a_plugin_may_give_a_client_certificate(tmp_path: Path) -> None:
    script = (
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
        " 'status': {'clientCertificateData': 'certificate', 'clientKeyData': 'key'}}))"
    )
    access = from_kubeconfig(written(tmp_path, a_plugin(tmp_path, script)))
    assert access.certificate == ("certificate", "key")
    assert access.authorization() == ""


@pytest.mark.parametrize("script", ["raise SystemExit('who are you?')", "print('hello')", "print('{}')"])
def test_a_plugin_that_fails_is_refused_by_name(tmp_path: Path, script: str) -> None:
    path = written(tmp_path, a_plugin(tmp_path, script))
    with pytest.raises(Refused, match=r"context 'site': exec .*plugin gave no token") as refused:
        from_kubeconfig(path)
    assert refused.value.reason == "Unauthorized"


def test_a_plugin_that_is_not_installed_is_refused_by_name(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "gke-gcloud-auth-plugin-absent"}}
    with pytest.raises(Refused, match="gke-gcloud-auth-plugin-absent"):
        from_kubeconfig(written(tmp_path, user))


def test_a_plugin_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfig, "PLUGIN_SECONDS", 0.5)
    with pytest.raises(Unavailable, match="plugin gave no credentials within"):
        from_kubeconfig(written(tmp_path, a_plugin(tmp_path, "time.sleep(60)")))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("beside", [{}, {"token": "t"}])
def test_an_auth_provider_is_refused_before_it_opens_anything(tmp_path: Path, beside: dict[str, str]) -> None:
    """An expired one of kind oidc would open its certificate authority, whatever it is, or go without one."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    expired = f"e30.{base64_of(json.dumps({'exp': 1})).rstrip('=')}.x"
    for kind in ("azure", "oidc"):
        configured = {
            "id-token": expired,
            "refresh-token": "r",
            "idp-issuer-url": "https://127.0.0.1:1",
            "idp-certificate-authority": str(fifo),
        }
        with pytest.raises(Refused, match="use a credential plugin") as refused:
            from_kubeconfig(written(tmp_path, {"auth-provider": {"name": kind, "config": configured}, **beside}))
        assert refused.value.reason == "KubeconfigInvalid"


# -- in a pod


def test_in_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("pod-token")
    (tmp_path / "ca.crt").write_text(PEM)
    access = in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"})
    assert (access.server, access.ca, access.authorization()) == ("https://[fd00::1]:443", PEM, "Bearer pod-token")


def test_outside_a_pod_and_in_a_pod_without_an_account_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="KUBERNETES_SERVICE_HOST"):
        in_cluster(tmp_path, {})
    with pytest.raises(Refused, match=r"ca\.crt: No such file"):
        in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"})


def test_plain_credentials_do_not_import_the_kubernetes_package(tmp_path: Path) -> None:
    path = written(tmp_path, {"token": "t"})
    code = (
        "import sys; from shared.adapters.kubernetes import Kubernetes; from shared.adapters.kubeconfig import from_kubeconfig;"
        f"from_kubeconfig({path!r}).authorization(); sys.exit('kubernetes' in sys.modules or 'requests' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
