"""The names of actions and of the tags that a site action sets: one table, which the code, the API and `docs/actions.md` read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

RelabelName = Literal["update_labels", "relabel_nodes", "update_site", "drift_sweep"]
"""The actions that a RelabelRequest can ask for."""

UNKNOWN: Final = "unknown"
"""Who asked, where nobody says so: a clock, or a message without a name."""
UPDATE_LABELS: Final = "update_labels"
RELABEL_NODES: Final = "relabel_nodes"
UPDATE_SITE: Final = "update_site"
DRIFT_SWEEP: Final = "drift_sweep"
UPDATE_VERSIONS: Final = "update_versions"


@dataclass(frozen=True, slots=True)
class ActionKind:
    """What an action of one name does. `nodes`: which it is about; `http`: whether `POST /actions` takes it."""

    name: str
    nodes: Literal["those it names", "every node", "none"]
    does: str
    asked_by: str
    http: bool = True


ACTIONS = (
    ActionKind(
        UPDATE_LABELS,
        "those it names",
        "Brings the labels of some nodes in sync with the newest committed documents.",
        "`hullmark relabel NODE…`, `POST /v1.0/actions`, `POST /v1.0/tasks`, a message on `relabel-requests`, a retry",
    ),
    ActionKind(
        RELABEL_NODES,
        "those it names",
        "The same as `update_labels`, under the name that Drydock gives it.",
        "`POST /v1.0/tasks`, `POST /v1.0/actions`, a message on `relabel-requests`",
    ),
    ActionKind(
        UPDATE_SITE,
        "every node",
        "Brings every node of the documents and of the cluster in sync, and tags the revision with the result.",
        "`hullmark relabel --all`, `POST /v1.0/actions`, a message on `relabel-requests`",
    ),
    ActionKind(
        DRIFT_SWEEP,
        "every node",
        "Repairs what cluster events missed. It tags no revision.",
        "the clock (`drift-sweep` in `functions/steps.yaml`), `POST /v1.0/actions`, a message on `relabel-requests`",
    ),
    ActionKind(
        UPDATE_VERSIONS,
        "none",
        "Moves the Kubernetes and machine image versions of one cluster while its maintenance window is open.",
        "`version_check`, once for each cluster and opening of its window",
        http=False,
    ),
)
NAMED_NODES = tuple(kind.name for kind in ACTIONS if kind.nodes == "those it names")
WHOLE_SITE = tuple(kind.name for kind in ACTIONS if kind.nodes == "every node")
OVER_HTTP = tuple(kind.name for kind in ACTIONS if kind.http)

COMMITTED: Final = "committed"
SITE_ACTION_SUCCESS: Final = "site-action-success"
SITE_ACTION_FAILURE: Final = "site-action-failure"
REJECTED: Final = "rejected"
SITE_TAGS = (SITE_ACTION_SUCCESS, SITE_ACTION_FAILURE)
TAGS = {
    COMMITTED: "Every revision has it.",
    SITE_ACTION_SUCCESS: "An `update_site` of this revision succeeded. Set by hand, it adopts a site that was deployed by other means.",
    SITE_ACTION_FAILURE: "An `update_site` of this revision did not succeed.",
    REJECTED: "It was taken back, by `documents restore` of an earlier one or by hand. Nothing releases it until this is removed.",
}
"""Tags that Hullmark sets on revisions; people may set others. Some nodes can be relabelled once any revision has a site tag."""
