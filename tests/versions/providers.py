"""EKS and GKE as small HTTP services, held to the shapes that the services document.

EKS: every route, request and answer is checked against botocore's model of the service; names, types, enumerations and what is required.
So is the one call of Systems Manager that lists the releases of images.
GKE: every request and every answer is read by google-cloud-container's messages, which refuse a field or a value that they do not know.

Limits: one cluster each; updates end when a test says so; no rights, quotas, add-ons, Auto Mode or launch templates. EKS refuses a second
update while one runs, a version that is not the next minor, a node group above its control plane, and a release that is not published
for the node group's minor; GKE an operation while one runs.
GKE's versions are taken as they come.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import botocore.session
from google.cloud import container_v1

Answer = tuple[int, dict[str, Any]]
MODEL = botocore.session.get_session().get_service_model("eks")
PARAMETERS = botocore.session.get_session().get_service_model("ssm").operation_model("GetParametersByPath")
PAGE = 10
"""Parameters that one answer of Systems Manager has at most."""
AL2023 = "/aws/service/eks/optimized-ami/{}/amazon-linux-2023/x86_64/standard"
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "timestamp": (int, float),
    "map": (dict,),
    "list": (list,),
    "structure": (dict,),
}


class Service(ThreadingHTTPServer):
    """Answers by `METHOD path`; what it was asked with a body is kept in order."""

    def __init__(self) -> None:
        self.routes: list[tuple[str, Callable[..., Answer]]] = []
        self.asked: list[tuple[str, Any]] = []
        self.broken: list[str] = []
        """What was asked or answered in a shape that the service does not document."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.thread = threading.Thread(target=lambda: self.serve_forever(poll_interval=0.02), daemon=True)
        self.thread.start()

    def route(self, pattern: str, answer: Callable[..., Answer]) -> None:
        self.routes.append((pattern, answer))

    def close(self) -> None:
        self.shutdown()
        self.thread.join()
        self.server_close()
        assert self.broken == []


class Handler(BaseHTTPRequestHandler):
    server: Service

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        path, _, query = self.path.partition("?")
        call = f"{self.command} {path}"
        for pattern, answer in self.server.routes:
            match = re.fullmatch(pattern, call)
            if match:
                if self.command != "GET" and path != "/" and not path.endswith("/insights"):
                    self.server.asked.append((call, body))
                asked = body if self.command != "GET" else {name: values[0] for name, values in parse_qs(query).items()}
                self.send(*answer(*match.groups(), **({"body": asked} if self.command != "GET" or _takes_query(answer) else {})))
                return
        self.send(404, {"message": f"no {call}", "error": {"message": f"no {call}", "code": 404, "status": "NOT_FOUND"}})

    do_GET = do_POST = do_PUT = answer  # noqa: N815 - http.server's names

    def send(self, code: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if code >= 400 and "type" in body:
            self.send_header("x-amzn-ErrorType", body["type"])
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None: ...


def _takes_query(answer: Callable[..., Answer]) -> bool:
    return getattr(answer, "takes_query", False)


# --- EKS ------------------------------------------------------------------------------------------------------------------------------


def unlike(shape: Any, value: Any, where: str) -> list[str]:
    """Where a value is not of a botocore shape."""
    fits = isinstance(value, TYPES[shape.type_name]) and (shape.type_name == "boolean" or not isinstance(value, bool))
    if not fits:
        return [f"{where} is {value!r}, not a {shape.type_name}"]
    if shape.type_name == "structure":
        strange = [f"{where}.{name} is not documented" for name in value if name not in shape.members]
        missing = [f"{where}.{name} is required" for name in shape.required_members if name not in value]
        return (
            strange
            + missing
            + [
                wrong
                for name, each in value.items()
                if name in shape.members
                for wrong in unlike(shape.members[name], each, f"{where}.{name}")
            ]
        )
    if shape.type_name == "list":
        return [wrong for number, each in enumerate(value) for wrong in unlike(shape.member, each, f"{where}[{number}]")]
    allowed = getattr(shape, "enum", None)
    return [f"{where} is {value!r}, none of {', '.join(allowed)}"] if allowed and value not in allowed else []


class FakeEks:
    """One cluster with node groups. What is updated stays UPDATING until `finish` or `fail`."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.cluster: dict[str, Any] = {
            "name": "prod",
            "version": "1.31",
            "status": "ACTIVE",
            "upgradePolicy": {"supportType": "STANDARD"},
            "health": {"issues": []},
        }
        self.groups: dict[str, dict[str, Any]] = {
            name: {
                "nodegroupName": name,
                "clusterName": "prod",
                "version": "1.31",
                "releaseVersion": "1.31.3-20250103",
                "status": "ACTIVE",
                "amiType": "AL2023_x86_64_STANDARD",
                "health": {"issues": []},
            }
            for name in ("a", "b")
        }
        self.versions: list[dict[str, Any]] = [
            offered("1.33", "STANDARD_SUPPORT", 1785369600, 1816905600),
            offered("1.32", "STANDARD_SUPPORT", 1774224000, 1805760000),
            offered("1.31", "EXTENDED_SUPPORT", 1764115200, 1795651200),
        ]
        self.insights: list[dict[str, Any]] = []
        self.parameters: dict[str, str] = {}
        """The public parameters of Systems Manager."""
        self.listings: list[str] = []
        """The paths whose parameters were asked for, page by page."""
        self.publishes("1.31.3-20250103")
        self.publishes("1.32.9-20250601")
        self.updates: dict[str, dict[str, Any]] = {}
        self.tokens: dict[str, str] = {}
        self.places: dict[str, str] = {}
        """By update, its node group (empty: the control plane)."""
        self.wanted: dict[str, str] = {}
        """By node group (empty: the control plane), the version that an update leads to."""
        self.serve("DescribeCluster", lambda _: (200, {"cluster": self.cluster}))
        self.serve("ListNodegroups", lambda _: (200, {"nodegroups": list(self.groups)}))
        self.serve("DescribeNodegroup", lambda asked: self.group(asked["nodegroupName"]))
        self.serve("DescribeClusterVersions", lambda _: (200, {"clusterVersions": self.versions}))
        self.serve("ListInsights", self.list_insights)
        self.serve("UpdateClusterVersion", self.update)
        self.serve("UpdateNodegroupVersion", self.update_group)
        self.serve("ListUpdates", lambda asked: (200, {"updateIds": self.updates_of(asked.get("nodegroupName", ""))}))
        self.serve("DescribeUpdate", lambda asked: self.describe_update(asked["updateId"]))
        self.service.route("POST /", self.parameters_by_path)

    def publishes(self, release: str, *, recommended: bool = True) -> None:
        """AWS publishes a release of Amazon Linux 2023's standard image."""
        minor, date = release.rpartition(".")[0], release.rpartition("-")[2]
        folders = [f"amazon-eks-node-al2023-x86_64-standard-{minor}-v{date}", *(["recommended"] if recommended else [])]
        for folder in folders:
            place = f"{AL2023.format(minor)}/{folder}"
            self.parameters |= {f"{place}/image_id": f"ami-{date}", f"{place}/release_version": release}

    def parameters_by_path(self, body: dict[str, Any]) -> Answer:
        """GetParametersByPath: what is below a path, ten at a time."""
        self.service.broken += unlike(PARAMETERS.input_shape, body, PARAMETERS.name)
        self.listings.append(body["Path"])
        names = [name for name in sorted(self.parameters) if name.startswith(f"{body['Path']}/")]
        begin = int(body.get("NextToken", "0"))
        more = {"NextToken": str(begin + PAGE)} if len(names) > begin + PAGE else {}
        page = [{"Name": name, "Type": "String", "Value": self.parameters[name]} for name in names[begin : begin + PAGE]]
        said = {"Parameters": page} | more
        self.service.broken += unlike(PARAMETERS.output_shape, said, PARAMETERS.name)
        return 200, said

    def serve(self, name: str, answer: Callable[[dict[str, Any]], Answer]) -> None:
        """An operation at the address and in the shapes that botocore's model has for it."""
        operation = MODEL.operation_model(name)
        members = operation.input_shape.members
        uri = {shape.serialization["name"]: key for key, shape in members.items() if shape.serialization.get("location") == "uri"}
        names = re.findall(r"{(\w+)}", operation.http["requestUri"])
        pattern = f"{operation.http['method']} " + re.sub(r"{\w+}", "([^/]+)", operation.http["requestUri"])

        def answered(*parts: str, body: dict[str, Any]) -> Answer:
            asked = {uri[name]: part for name, part in zip(names, parts, strict=True)} | body
            self.service.broken += unlike(operation.input_shape, asked, name)
            code, said = answer(asked) if asked.get("name", asked.get("clusterName", "prod")) == "prod" else unknown("cluster")
            errors = {shape.name for shape in operation.error_shapes}
            self.service.broken += unlike(operation.output_shape, said, name) if code == 200 else []
            self.service.broken += [f"{name} does not answer {said['type']}"] if code != 200 and said["type"] not in errors else []
            return code, said

        answered.takes_query = True  # type: ignore[attr-defined]
        self.service.route(pattern, answered)

    def group(self, name: str) -> Answer:
        return (200, {"nodegroup": self.groups[name]}) if name in self.groups else unknown(name)

    def list_insights(self, asked: dict[str, Any]) -> Answer:
        wanted = asked.get("filter", {})
        fields = {
            "categories": lambda each: each["category"],
            "kubernetesVersions": lambda each: each["kubernetesVersion"],
            "statuses": lambda each: each["insightStatus"]["status"],
        }
        found = [each for each in self.insights if all(fields[name](each) in allowed for name, allowed in wanted.items())]
        return 200, {"insights": found}

    def update(self, asked: dict[str, Any]) -> Answer:
        if minor(asked["version"]) != minor(self.cluster["version"]) + 1 and asked.get("clientRequestToken") not in self.tokens:
            return 400, {"type": "InvalidParameterException", "message": "Unsupported Kubernetes minor version update"}
        return self.begun("", self.cluster, asked)

    def update_group(self, asked: dict[str, Any]) -> Answer:
        name = asked["nodegroupName"]
        if name not in self.groups:
            return unknown(name)
        if minor(asked.get("version", self.groups[name]["version"])) > minor(self.cluster["version"]):
            return 400, {"type": "InvalidParameterException", "message": "Nodegroup Kubernetes version is above the cluster's"}
        if self.groups[name]["amiType"] == "CUSTOM":
            return 400, {"type": "InvalidParameterException", "message": "You cannot specify a version with a custom AMI"}
        release = asked.get("releaseVersion")
        published = f"{AL2023.format(asked.get('version', self.groups[name]['version']))}/"
        if release and not any(value == release for key, value in self.parameters.items() if key.startswith(published)):
            return 400, {"type": "InvalidParameterException", "message": f"Requested Nodegroup release version {release} is invalid"}
        if self.cluster["status"] != "ACTIVE":
            return busy("Cluster prod")
        return self.begun(name, self.groups[name], asked)

    def begun(self, place: str, there: dict[str, Any], asked: dict[str, Any]) -> Answer:
        token = asked.get("clientRequestToken", "")
        if token and token in self.tokens:
            return 200, {"update": self.updates[self.tokens[token]]}
        if there["status"] != "ACTIVE":
            return busy(place or "Cluster prod")
        there["status"] = "UPDATING"
        params = [{"type": "Version", "value": asked.get("version", there["version"])}]
        params += [{"type": "ReleaseVersion", "value": asked["releaseVersion"]}] if "releaseVersion" in asked else []
        update: dict[str, Any] = {
            "id": f"u{len(self.updates) + 1}",
            "status": "InProgress",
            "type": "VersionUpdate",
            "params": params,
            "errors": [],
        }
        update["createdAt"] = 1795300000 + len(self.updates)
        self.updates[update["id"]] = update
        self.tokens[token] = update["id"]
        self.places[update["id"]] = place
        self.wanted[place] = update["id"]
        return 200, {"update": update}

    def updates_of(self, place: str) -> list[str]:
        return [each for each, where in self.places.items() if where == place]

    def describe_update(self, name: str) -> Answer:
        return (200, {"update": self.updates[name]}) if name in self.updates else unknown(name)

    def finish(self) -> None:
        """Every update that runs is through."""
        for place, update in self._ended("Successful"):
            changed = {param["type"]: param["value"] for param in update["params"]}
            place["version"] = changed["Version"]
            if "nodegroupName" in place:
                place["releaseVersion"] = changed.get("ReleaseVersion", f"{changed['Version']}.9-20250601")

    def fail(self, code: str, message: str) -> None:
        """Every update that runs has failed."""
        for _, update in self._ended("Failed"):
            update["errors"] = [{"errorCode": code, "errorMessage": message, "resourceIds": []}]

    def _ended(self, status: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        ended = []
        for place, update in self.wanted.items():
            there = self.groups[place] if place else self.cluster
            there["status"] = "ACTIVE"
            self.updates[update]["status"] = status
            ended.append((there, self.updates[update]))
        self.wanted.clear()
        return ended


def offered(version: str, status: str, standard: int, extended: int) -> dict[str, Any]:
    """An entry of DescribeClusterVersions; the ends of support in seconds since 1970."""
    support = {"versionStatus": status, "status": status.lower().replace("_", "-")}
    return {"clusterVersion": version, **support, "endOfStandardSupportDate": standard, "endOfExtendedSupportDate": extended}


def insight(
    version: str, status: str, name: str = "Deprecated APIs removed", reason: str = "Deprecated API usage detected."
) -> dict[str, Any]:
    """An entry of ListInsights."""
    found = {"id": f"i-{version}-{status}", "name": name, "category": "UPGRADE_READINESS", "kubernetesVersion": version}
    return found | {"insightStatus": {"status": status, "reason": reason}}


def minor(version: str) -> int:
    return int(version.split(".")[1])


def busy(what: str) -> Answer:
    return 409, {"type": "ResourceInUseException", "message": f"{what} has an update in progress"}


def unknown(what: str) -> Answer:
    return 404, {"type": "ResourceNotFoundException", "message": f"No {what} found"}


# --- GKE ------------------------------------------------------------------------------------------------------------------------------

PLACE = "projects/p/locations/l"
NAME = f"/v1/{PLACE}/clusters/c"


class FakeGke:
    """One cluster on the regular channel. An operation that is begun runs until `finish` or `fail`."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.cluster: dict[str, Any] = {
            "name": "c",
            "status": "RUNNING",
            "currentMasterVersion": "1.31.5-gke.1000",
            "releaseChannel": {"channel": "REGULAR"},
            "nodePools": [{"name": "a", "version": "1.31.5-gke.1000", "status": "RUNNING", "config": {"imageType": "COS_CONTAINERD"}}],
        }
        self.valid = ["1.32.1-gke.200", "1.31.7-gke.100", "1.31.5-gke.1000"]
        self.operations: dict[str, dict[str, Any]] = {}
        self.pending: dict[str, Callable[[], None]] = {}
        channels = [{"channel": "RAPID", "validVersions": ["1.34.0-gke.1"]}, {"channel": "REGULAR", "validVersions": self.valid}]
        config = {"channels": channels, "validMasterVersions": ["1.30.0-gke.1"]}
        self.serve(f"GET {NAME}", container_v1.Cluster, lambda: (200, self.cluster))
        self.serve(f"GET /v1/{PLACE}/serverConfig", container_v1.ServerConfig, lambda: (200, config))
        self.serve(f"POST {NAME}:updateMaster", container_v1.Operation, self.update, container_v1.UpdateMasterRequest)
        self.serve(f"PUT {NAME}/nodePools/a", container_v1.Operation, self.update_pool, container_v1.UpdateNodePoolRequest)
        listed = lambda: (200, {"operations": list(self.operations.values())})  # noqa: E731
        self.serve(f"GET /v1/{PLACE}/operations", container_v1.ListOperationsResponse, listed)

    def serve(self, pattern: str, shape: Any, answer: Callable[..., Answer], asked: Any = None) -> None:
        """A route whose answers, and requests, are messages of the API."""

        def answered(*parts: str, **given: Any) -> Answer:
            if asked is not None:
                self.checked(asked, given["body"], pattern)
            code, said = answer(*parts, **given)
            if code == 200:
                self.checked(shape, said, pattern)
            return code, said

        self.service.route(pattern, answered)

    def checked(self, shape: Any, value: dict[str, Any], where: str) -> None:
        try:
            shape.from_json(json.dumps(value), ignore_unknown_fields=False)
        except Exception as wrong:  # protobuf's own errors
            self.service.broken.append(f"{where}: {wrong}")

    def update(self, body: dict[str, Any]) -> Answer:
        return self.begun("UPGRADE_MASTER", "", lambda: self.cluster.update(currentMasterVersion=body["masterVersion"]))

    def update_pool(self, body: dict[str, Any]) -> Answer:
        pool = self.cluster["nodePools"][0]
        return self.begun(
            "UPGRADE_NODES", "/nodePools/a", lambda: pool.update(version=body["nodeVersion"], config={"imageType": body["imageType"]})
        )

    def begun(self, kind: str, place: str, done: Callable[[], None]) -> Answer:
        if self.pending:
            message = f"Cluster is running incompatible operation {next(iter(self.pending))}."
            return 400, {"error": {"code": 400, "message": message, "status": "FAILED_PRECONDITION"}}
        name = f"operation-{len(self.operations) + 1}"
        self.operations[name] = {
            "name": name,
            "operationType": kind,
            "status": "RUNNING",
            "targetLink": f"https://container.googleapis.com{NAME}{place}",
            "startTime": f"2026-11-21T22:0{len(self.operations)}:00Z",
        }
        self.pending[name] = done
        self.cluster["status"] = "RECONCILING"
        return 200, self.operations[name]

    def finish(self) -> None:
        """The operation that runs is through."""
        for name, done in self.pending.items():
            self.operations[name]["status"] = "DONE"
            done()
        self._rests()

    def fail(self, message: str) -> None:
        """The operation that runs has failed."""
        for name in self.pending:
            self.operations[name] |= {"status": "DONE", "error": {"code": 13, "message": message}}
        self._rests()

    def _rests(self) -> None:
        self.pending.clear()
        self.cluster["status"] = "RUNNING"
