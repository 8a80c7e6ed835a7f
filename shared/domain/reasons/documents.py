"""What can be wrong with documents: Kubernetes' words for field errors, and two rules of Hullmark's own."""

from __future__ import annotations

from shared.domain.reasons.reason import Group, Reason

DOCUMENTS = Group(
    title="Documents",
    said_by="`hullmark validate`, `documents stage|commit`, `POST /v1.0/configdocs`: the `type` of a problem",
    modules=(
        "shared/domain/documents/",
        "shared/domain/site.py",
        "shared/domain/labels/",
        "shared/domain/pods/",
        "shared/domain/versions/",
        "shared/ledger/",
    ),
    reasons={
        "Syntax": Reason("the text is no YAML, or YAML of a kind that is not read here", "correct it at the line that is named"),
        "Invalid": Reason("a value has the wrong type or form", "write it as the message says"),
        "Required": Reason("something that has to be there is missing", "add it"),
        "Duplicate": Reason("what may be there once is there twice", "keep one; the message names the other"),
        "Unknown": Reason(
            "no field or schema of this name is known; of Airship's documents it is left alone, with a warning", "correct the name"
        ),
        "NotSupported": Reason("the value is none of those that are allowed", "choose one of those that the message lists"),
        "NotFound": Reason("a document names another one that is not there", "add that document, or correct the name"),
        "Forbidden": Reason(
            "the value is well-formed but not allowed here: a protected key, a version that would go down or skip a minor",
            "leave it out; `allowProtected` of a LabelRules document permits a protected key",
        ),
        "SelectsWhatItWrites": Reason(
            "a policy declares a key that a policy selects nodes by, so what is declared would depend on what was written",
            "declare another key, or select by names, tags or racks",
        ),
        "Reconciled": Reason(
            "a cloud or an autoscaler sets this key again and again, so two writers would fight over it; a warning",
            "declare it where the cloud takes it from, or leave it out",
        ),
    },
)
