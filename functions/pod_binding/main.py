"""Put the declared labels of a node on the pods bound to it. Never denies, and answers before the API server stops waiting.

in   HTTP   AdmissionReview (admission.k8s.io/v1); the path names the cluster, `/` the default one; GET asks for readiness
out  HTTP   AdmissionReview with a JSON patch
"""

from __future__ import annotations

import json
import logging
import time

import flask
import functions_framework

from shared import wiring
from shared.domain.pods import MalformedReview, Review, answer, patch, read_review
from shared.pod_topology import PodTopology

log = logging.getLogger("hullmark.pod_binding")

LONGEST = 1.5
"""Seconds within which an answer is on its way: the manifest's timeout is 2 s."""
SHARE = 0.75
"""Part of the API server's own timeout (it sends `?timeout=2s`) that an answer may take; the rest is for the way."""
JSON = {"Content-Type": "application/json"}


@functions_framework.http
def pod_binding(request: flask.Request) -> flask.typing.ResponseReturnValue:
    """Decode, hand over, encode."""
    started = time.monotonic()
    topology, cluster = wiring.ports().pod_topology, request.path.strip("/") or "default"
    if request.method == "GET":
        ready = topology.ready(cluster)
        return {"ready": ready}, 200 if ready else 503
    if request.method != "POST":
        return {"message": f"{request.method} is not answered here: POST an AdmissionReview"}, 405, {"Allow": "GET, POST"}
    try:
        review = read_review(request.get_data(cache=False))
    except MalformedReview as error:
        return {"message": str(error)}, 400
    left = seconds_for(request.args.get("timeout", "")) - (time.monotonic() - started)
    return handle(review, cluster, topology, left), 200, JSON


def handle(review: Review, cluster: str, topology: PodTopology, seconds: float) -> bytes:
    """The AdmissionReview to send back, after `seconds` at most."""
    add = topology.additions(review, cluster, seconds)
    if add.warnings and review.placement:
        place = review.placement
        line = {"step": "pod_binding", "subject": f"{place.namespace}/{place.pod}", "node": place.node, "cluster": cluster}
        log.warning(json.dumps({**line, "severity": "WARNING", "outcome": "incomplete", "message": "; ".join(add.warnings)}))
    return answer(review.uid, patch(review.placement, add) if review.placement else [], add.warnings)


def seconds_for(timeout: str) -> float:
    """How long an answer may take, by the API server's `timeout` parameter (`2s`, `500ms`; anything else: the manifest's 2 s)."""
    for unit, scale in (("ms", 0.001), ("s", 1.0)):
        number = timeout.removesuffix(unit)
        if number != timeout and number.replace(".", "", 1).isascii() and number.replace(".", "", 1).isdigit():
            return min(LONGEST, float(number) * scale * SHARE)
    return LONGEST
