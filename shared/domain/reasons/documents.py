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
        "Syntax": Reason("the text is not YAML, or uses YAML features that are not supported", "correct it at the line given"),
        "Invalid": Reason("a value has the wrong type or form", "write it as the message says"),
        "Required": Reason("something required is missing", "add it"),
        "Duplicate": Reason("something that must be unique is there twice", "keep one; the message names the other"),
        "Unknown": Reason("no field or schema has this name; in Airship's and Gardener's it is ignored with a warning", "correct the name"),
        "NotSupported": Reason("the value is not one of the allowed ones", "choose one that the message lists"),
        "NotFound": Reason("a document refers to one that does not exist", "add that document, or correct the name"),
        "Forbidden": Reason(
            "the value is well-formed but not allowed here: a protected key, a downgrade or a skipped minor",
            "leave it out; `allowProtected` of a LabelRules document permits a protected key",
        ),
        "SelectsWhatItWrites": Reason(
            "a policy declares a key that a policy selects nodes by, so what is declared would depend on what was written",
            "declare another key, or select by names, tags or racks",
        ),
        "Reconciled": Reason(
            "a cloud or an autoscaler keeps resetting this key, so two writers would fight over it; a warning",
            "declare it where the cloud reads it, or leave it out",
        ),
    },
)
