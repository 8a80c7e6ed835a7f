"""Everything that a revision says besides its nodes: policies, clusters, alias pairs, pods' policies. Pure."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shared.domain.aliases import KEP_793, AliasPair
from shared.domain.documents import KINDS, Cluster, HullmarkDocument, LabelAliases, LabelRules, NodeLabelPolicy, PodLabelPolicy
from shared.domain.labels import KEEP_DOMAINS, Policies


@dataclass(frozen=True)
class Rules:
    """Hullmark's own documents of a site, which have been validated."""

    documents: tuple[HullmarkDocument, ...] = ()

    @functools.cached_property
    def policies(self) -> Policies:
        """The node label policies, ready to be asked."""
        return Policies(document for document in self.documents if isinstance(document, NodeLabelPolicy))

    @functools.cached_property
    def clusters(self) -> dict[str, Cluster]:
        """Cluster documents by name."""
        return {document.name: document for document in self.documents if isinstance(document, Cluster)}

    @functools.cached_property
    def alias_pairs(self) -> tuple[AliasPair, ...]:
        """The pairs that LabelAliases documents declare; without one, those of KEP-793."""
        declared = [document for document in self.documents if isinstance(document, LabelAliases)]
        if not declared:
            return KEP_793
        return tuple(
            AliasPair(pair.primary, pair.secondary, pair.ensure_secondary_exists, pair.from_ or "", pair.before or "")
            for document in declared
            for pair in document.spec.pairs
        )

    @functools.cached_property
    def pod_policies(self) -> tuple[PodLabelPolicy, ...]:
        """The pods' policies."""
        return tuple(document for document in self.documents if isinstance(document, PodLabelPolicy))

    @functools.cached_property
    def keep_domains(self) -> tuple[str, ...]:
        """Whose labels `prune: all` spares."""
        given = [document.spec.keep_domains for document in self.documents if isinstance(document, LabelRules)]
        return tuple(given[0]) if given and given[0] is not None else KEEP_DOMAINS

    def to_json(self) -> list[dict[str, Any]]:
        """The documents as they are kept in a revision."""
        return [document.model_dump(by_alias=True, exclude_none=True, mode="json") for document in self.documents]

    @classmethod
    def from_json(cls, documents: Iterable[Mapping[str, Any]]) -> Rules:
        """Read what `to_json` made."""
        return cls(tuple(KINDS[document["kind"]].model_validate(document) for document in documents))


def access_of(cluster: Cluster) -> dict[str, Any] | None:
    """How a Cluster document says that its cluster is reached, in the document's own words."""
    return cluster.spec.access.model_dump(by_alias=True, exclude_none=True) if cluster.spec.access else None
