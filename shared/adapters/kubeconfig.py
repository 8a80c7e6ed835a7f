"""Access to an API server from a kubeconfig or from inside a pod.

Plain credentials (token, token file, client certificate, password) are read here; credential plugins (`exec`) are run by the
`kubernetes` package, which is imported only then: it costs 0.3 s, more than a cold start has left (measured; see DECISIONS).
"""

from __future__ import annotations

import base64
import binascii
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import yaml

from shared.adapters.apiserver import Access
from shared.adapters.files import NotReadable, NotThere, read_regular
from shared.ports import Refused, Unavailable

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_FILE_SECONDS = 60.0
"""How long a token read from a file is used before it is read again: the kubelet renews it at 80 % of an hour."""
PLUGIN_SECONDS = 60.0
"""How long a credential plugin may take; a person may have to log in."""
PACKAGE_SECONDS = 10.0
"""How long what the package said is used before it is asked again; it renews a token minutes before its end."""
FILE_BYTES = 4 << 20
"""The most that a kubeconfig, a certificate, a key or a token may have."""
NO_AUTH_PROVIDER = (
    "the user has an auth-provider, which opens files and hosts of its own (without a certificate authority unverified): use a credential "
    "plugin (`exec`), such as gke-gcloud-auth-plugin or kubectl oidc-login"
)
_PATHS = {"clusters": ("certificate-authority",), "users": ("client-certificate", "client-key", "tokenFile")}


def from_kubeconfig(path: str = "", context: str = "", environment: Mapping[str, str] = os.environ) -> Access:
    """Access by a kubeconfig file; without a path those of $KUBECONFIG, else ~/.kube/config; without a context the current one.

    Raises Refused, naming file and context, and Unavailable where a credential plugin doesn't answer.
    """
    files = [path] if path else [f for f in environment.get("KUBECONFIG", "").split(os.pathsep) if f] or ["~/.kube/config"]
    config = _merged([Path(f).expanduser() for f in files], must_exist=bool(path))
    return _Reader(config, os.pathsep.join(files), context or _text(config.get("current-context"))).access(environment)


def in_cluster(folder: Path = SERVICE_ACCOUNT, environment: Mapping[str, str] = os.environ) -> Access:
    """Access by a pod's service account. Raises Refused outside a pod."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise Refused(
            "NotInCluster", "in-cluster access, but KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: not in a pod"
        )
    where = f"in-cluster access ({folder})"
    ca = _read(folder / "ca.crt", where)
    return Access(f"https://{f'[{host}]' if ':' in host else host}:{port}", ca=ca, authorization=_TokenFile(folder / "token", where))


def _merged(files: list[Path], must_exist: bool) -> dict[str, Any]:
    """Several kubeconfigs as kubectl merges them: the first to say something wins; paths are relative to the file that has them."""
    merged: dict[str, Any] = {}
    exists = False
    for file in files:
        try:
            text = read_regular(file, FILE_BYTES)
            data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe loaders
        except NotThere:
            continue
        except yaml.MarkedYAMLError as error:
            from shared.domain.documents.parsing import syntax_message

            line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
            raise Refused("KubeconfigInvalid", f"kubeconfig {file}{line}: {syntax_message(error)}") from error
        except (NotReadable, yaml.YAMLError, UnicodeDecodeError) as error:
            raise Refused("KubeconfigInvalid", f"kubeconfig {file}: {' '.join(str(error).split())[:200]}") from error
        exists = True
        if not isinstance(data, dict):
            raise Refused("KubeconfigInvalid", f"kubeconfig {file}: not a mapping")
        merged["current-context"] = merged.get("current-context") or data.get("current-context")
        for section in ("clusters", "users", "contexts"):
            known = merged.setdefault(section, {})
            for item in data.get(section) or []:
                known.setdefault(*_item(item, section, file))
    if not exists:
        names = ", ".join(map(str, files))
        hint = "" if must_exist else "; say which in HULLMARK_CLUSTER, HULLMARK_KUBECONFIGS or KUBECONFIG"
        raise Refused("KubeconfigMissing", f"no kubeconfig at {names}{hint}")
    return merged


def _item(item: Any, section: str, file: Path) -> tuple[str, dict[str, Any]]:
    singular = section.removesuffix("s")
    if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not isinstance(item.get(singular) or {}, dict):
        raise Refused("KubeconfigInvalid", f"kubeconfig {file}: an entry of {section} is not {{name, {singular}}}")
    content = dict(item.get(singular) or {})
    for key in _PATHS.get(section, ()):
        if content.get(key):
            content[key] = os.path.normpath(file.parent / str(content[key]))
    plugin = content.get("exec")
    if isinstance(plugin, dict) and os.sep in str(plugin.get("command", "")):
        content["exec"] = {**plugin, "command": os.path.normpath(file.parent / plugin["command"])}
    return item["name"], content


class _Reader:
    """One context of a merged kubeconfig."""

    def __init__(self, config: Mapping[str, Any], files: str, context: str) -> None:
        self.where = f"kubeconfig {files}, context {context!r}"
        self.context = context
        if not context:
            raise Refused("KubeconfigInvalid", f"kubeconfig {files}: no context named, and it has no current-context")
        chosen = self._named(config, "contexts", context)
        self.cluster = self._named(config, "clusters", _text(chosen.get("cluster")))
        self.user = self._named(config, "users", _text(chosen["user"])) if chosen.get("user") else {}

    def _named(self, config: Mapping[str, Any], section: str, name: str) -> dict[str, Any]:
        known: dict[str, dict[str, Any]] = config.get(section, {})
        if name not in known:
            from shared.domain.documents.kinds import did_you_mean

            there = f"(there: {', '.join(sorted(known)) or 'none'}){did_you_mean(name, known)}"
            raise Refused("KubeconfigInvalid", f"{self.where}: no {name!r} in {section} {there}")
        return known[name]

    def access(self, environment: Mapping[str, str]) -> Access:
        server = _text(self.cluster.get("server")).rstrip("/")
        if not server:
            raise Refused("KubeconfigInvalid", f"{self.where}: the cluster has no server")
        authorization, certificate = self._credentials()
        return Access(
            server,
            ca=self._text_of(self.cluster, "certificate-authority"),
            verify=not self.cluster.get("insecure-skip-tls-verify"),
            server_name=_text(self.cluster.get("tls-server-name")),
            proxy=_text(self.cluster.get("proxy-url")) or _proxy_of(environment, server),
            certificate=certificate,
            headers=self._impersonation(),
            authorization=authorization,
        )

    def _credentials(self) -> tuple[Callable[[], str], tuple[str, str] | None]:
        """The Authorization header's source and the client certificate; client-go's order: a token beats a plugin."""
        user = dict(self.user)
        if "auth-provider" in user:
            raise Refused("KubeconfigInvalid", f"{self.where}: {NO_AUTH_PROVIDER}")
        if "exec" in user and not (user.get("token") or user.get("tokenFile")):
            return _by_package(user, self.cluster, self.where)
        certificate = self._certificate()
        if token_file := user.get("tokenFile"):
            return _TokenFile(Path(token_file), self.where), certificate
        header = ""
        if user.get("token"):
            header = f"Bearer {user['token']}"
        elif user.get("username"):
            header = "Basic " + base64.b64encode(f"{user['username']}:{user.get('password', '')}".encode()).decode()
        return lambda: header, certificate

    def _certificate(self) -> tuple[str, str] | None:
        keys = ("client-certificate", "client-key")
        has = [bool(self.user.get(key) or self.user.get(f"{key}-data")) for key in keys]
        if not any(has):
            return None
        if not all(has):
            raise Refused("KubeconfigInvalid", f"{self.where}: the user has only one of client-certificate and client-key")
        return self._text_of(self.user, keys[0]), self._text_of(self.user, keys[1])

    def _text_of(self, entry: Mapping[str, Any], key: str) -> str:
        """A PEM given as base64 (`KEY-data`, which wins) or as a file; empty where there is neither."""
        if data := entry.get(f"{key}-data"):
            try:
                return base64.b64decode("".join(str(data).split()), validate=True).decode()
            except (binascii.Error, UnicodeDecodeError) as error:
                raise Refused("KubeconfigInvalid", f"{self.where}: {key}-data is not base64 of a PEM: {error}") from error
        return _read(Path(entry[key]), f"{self.where}, {key}") if entry.get(key) else ""

    def _impersonation(self) -> dict[str, str]:
        user = self.user
        if not any(user.get(key) for key in ("as", "as-uid", "as-groups", "as-user-extra")):
            return {}
        if not user.get("as") or len(user.get("as-groups") or []) > 1:
            # http.client would fold several Impersonate-Group headers into one.
            raise Refused("KubeconfigInvalid", f"{self.where}: impersonation needs `as`, and at most one of `as-groups` is supported")
        named = {
            "Impersonate-User": user["as"],
            "Impersonate-Uid": user.get("as-uid"),
            "Impersonate-Group": (user.get("as-groups") or [None])[0],
        }
        extra = user.get("as-user-extra") or {}
        if any(len(values) != 1 for values in extra.values()):
            raise Refused("KubeconfigInvalid", f"{self.where}: as-user-extra with several values for one key is not supported")
        named |= {f"Impersonate-Extra-{quote(key, safe='')}": values[0] for key, values in extra.items()}
        return {key: str(value) for key, value in named.items() if value}


class _TokenFile:
    """A bearer token that something else renews in place."""

    def __init__(self, file: Path, where: str) -> None:
        self._file, self._where = file, where
        self._header, self._until = "", 0.0

    def __call__(self) -> str:
        now = time.monotonic()
        if now >= self._until:
            token = _read(self._file, self._where).strip()
            if not token:
                raise Refused("Unauthorized", f"{self._where}: the token file {self._file} is empty")
            self._header, self._until = f"Bearer {token}", now + TOKEN_FILE_SECONDS
        return self._header


def _by_package(user: Mapping[str, Any], cluster: Mapping[str, Any], where: str) -> tuple[Callable[[], str], tuple[str, str] | None]:
    """A credential plugin's, by the `kubernetes` package, which runs the plugin again when its token expires."""
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, load_kube_config_from_dict

    configuration = Configuration()
    whole = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": dict(cluster)}],
        "users": [{"name": "it", "user": dict(user)}],
    }

    def load() -> None:
        load_kube_config_from_dict(  # type: ignore[no-untyped-call]
            whole, client_configuration=configuration, persist_config=False
        )

    plugin = f"exec {user['exec'].get('command')}" if isinstance(user.get("exec"), dict) else "exec, which is no mapping,"
    try:
        _bounded(load, f"{where}: {plugin}")
    except (ConfigException, ValueError, KeyError, OSError) as error:
        raise Refused("Unauthorized", f"{where}: {plugin}: {error}") from error
    certificate = None
    if configuration.cert_file and configuration.key_file:
        certificate = _read(Path(configuration.cert_file), where), _read(Path(configuration.key_file), where)
    if not certificate and not configuration.api_key:
        raise Refused("Unauthorized", f"{where}: {plugin} gave no token and no certificate: run it by hand to see why")
    lock = threading.Lock()
    header, until = "", 0.0

    def ask() -> None:
        nonlocal header, until
        header = configuration.get_api_key_with_prefix("BearerToken", alias="authorization") or ""
        until = time.monotonic() + PACKAGE_SECONDS

    def authorization() -> str:
        with lock:
            if time.monotonic() >= until:
                _bounded(ask, f"{where}: {plugin}")
            return header

    return authorization, certificate


def _bounded(call: Callable[[], None], what: str) -> None:
    """Run a call that has no time limit of its own. Raises what it raises, and Unavailable after PLUGIN_SECONDS."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # handed over to the caller's thread
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PLUGIN_SECONDS)
    if thread.is_alive():
        raise Unavailable(f"{what} gave no credentials within {PLUGIN_SECONDS:.0f} s")
    if raised:
        raise raised[0]


def _proxy_of(environment: Mapping[str, str], server: str) -> str:
    """HTTPS_PROXY and NO_PROXY as Go reads them: never for this machine itself."""
    url = urlsplit(server)
    host = url.hostname or ""
    proxy = environment.get("HTTPS_PROXY") or environment.get("https_proxy") or ""
    if not proxy or url.scheme != "https" or host == "localhost" or host.startswith("127.") or host == "::1":
        return ""
    spared = [entry.strip().lower() for entry in (environment.get("NO_PROXY") or environment.get("no_proxy") or "").split(",")]
    if any(entry == "*" or (entry and (host == entry.lstrip(".") or host.endswith("." + entry.lstrip(".")))) for entry in spared):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _read(file: Path, where: str) -> str:
    try:
        return read_regular(file, FILE_BYTES).decode()
    except (NotReadable, UnicodeDecodeError) as error:
        cause = "not a text file" if isinstance(error, UnicodeDecodeError) else error
        raise Refused("KubeconfigInvalid", f"{where}: {file}: {cause}") from error


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
