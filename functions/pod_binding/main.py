"""Put the declared labels of a node on the pods bound to it. Never denies, and answers before the API server stops waiting.

A line is logged for what a person should see, not for each binding: they come by the thousand, and each pod shows what it got.

in   HTTP   AdmissionReview (admission.k8s.io/v1); the path names the cluster, `/` the default one; GET asks for readiness, or with
            `/livez` whether anybody answers at all
out  HTTP   AdmissionReview with a JSON patch
"""

from __future__ import annotations

import time

import flask
import functions_framework

from shared import telemetry, wiring
from shared.domain.pods.copying import Additions, MalformedReview, Placement, answer, patch, read_review
from shared.work.pod_topology import PodTopology

ALIVE = "/livez"
"""Answered whatever the store and the cluster do: a restart would not bring them back, and takes what is kept in memory."""
LONGEST = 1.5
"""Seconds within which an answer is on its way: the manifest's timeout is 2 s."""
SHARE = 0.75
"""Part of the API server's own timeout (it sends `?timeout=2s`) that an answer may take; the rest is for the way."""


@functions_framework.http
def pod_binding(request: flask.Request) -> flask.typing.ResponseReturnValue:
    """Entry point: decode, hand over, encode."""
    started = time.monotonic()
    if request.method == "GET" and request.path == ALIVE:
        return {"alive": True}
    topology, cluster = wiring.pod_topology(), request.path.strip("/") or "default"
    if request.method == "GET":
        ready = topology.ready(cluster)
        return {"ready": ready}, 200 if ready else 503
    if request.method != "POST":
        return {"message": f"{request.method} is not answered here: POST an AdmissionReview"}, 405, {"Allow": "GET, POST"}
    try:
        review = read_review(request.get_data(cache=False))
    except MalformedReview as error:
        with telemetry.serving("pod_binding", "", dict(request.headers)) as line:
            line.outcome("refused", "MalformedReview", text=str(error))
        return {"message": str(error)}, 400
    place, add = review.placement, Additions(warnings=review.warnings)
    if place is not None:
        add = decide(place, cluster, topology, seconds_for(request.args.get("timeout", "")) - (time.monotonic() - started))
    if add.warnings:
        subject = f"{place.namespace}/{place.pod} on {place.node}" if place else f"review {review.uid}"
        with telemetry.serving("pod_binding", subject, dict(request.headers)) as line:
            line.warn()
            line.outcome("incomplete", "NotCopied", text="; ".join(add.warnings))
    body = answer(review.uid, patch(place, add) if place else [], add.warnings)
    return flask.Response(body, content_type="application/json")


def decide(place: Placement, cluster: str, topology: PodTopology, seconds: float) -> Additions:
    """What the pod gets, after `seconds` at most; whatever goes wrong, it binds."""
    try:
        return topology.additions(place, cluster, seconds)
    except Exception as error:
        return Additions(warnings=(f"hullmark: no topology labels are copied, {type(error).__name__}: {error}"[:250],))


def seconds_for(timeout: str) -> float:
    """How long an answer may take, by the API server's `timeout` parameter (`2s`, `500ms`; anything else: the manifest's 2 s)."""
    for unit, scale in (("ms", 0.001), ("s", 1.0)):
        number = timeout.removesuffix(unit)
        if number != timeout and number.isascii() and number.replace(".", "", 1).isdigit():
            return min(LONGEST, float(number) * scale * SHARE)
    return LONGEST
