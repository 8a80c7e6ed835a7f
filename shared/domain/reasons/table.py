"""Every reason code, by who reports it: the table behind `docs/reasons.md`, `hullmark reasons` and the tests."""

from __future__ import annotations

from shared.domain.reasons.actions import OUTCOMES, REQUESTS
from shared.domain.reasons.clusters import CLUSTERS
from shared.domain.reasons.commands import COMMANDS
from shared.domain.reasons.documents import DOCUMENTS
from shared.domain.reasons.events import EVENTS
from shared.domain.reasons.pods import PODS
from shared.domain.reasons.rollouts import ROLLOUTS
from shared.domain.reasons.versions import VERSIONS

GROUPS = (REQUESTS, OUTCOMES, ROLLOUTS, DOCUMENTS, VERSIONS, CLUSTERS, EVENTS, PODS, COMMANDS)
WAITS = {**ROLLOUTS.reasons, **{code: REQUESTS.reasons[code] for code in ("Frozen", "Paused")}}
"""What a rollout waits for or stops with: a section of `docs/waits.md` each."""
