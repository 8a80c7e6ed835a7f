"""Tables, as an API server prints them for `kubectl get`: what is looked at comes without the objects, a twentieth of their size.

How pods fare is read from them: https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from shared.ports import Unavailable

TABLE = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
WITHOUT_OBJECTS = {"includeObject": "None"}
NO_CONDITION = "Unknown"
"""What a node without conditions has as its Status; one whose kubelet is silent is `NotReady`."""
GENERATED = 5
"""Characters that the API server adds to the name of a DaemonSet's pod,"""
LONGEST = 63 - GENERATED
"""which is cut to so many before: kubernetes/kubernetes, staging/src/k8s.io/apiserver/pkg/storage/names."""


class ListMetadata(msgspec.Struct):
    """Where a listing goes on."""

    next: str = msgspec.field(default="", name="continue")


class _Column(msgspec.Struct):
    name: str


class _Row(msgspec.Struct):
    cells: list[Any]  # of whatever type a column has


class Table(msgspec.Struct):
    """A page of a listing, as columns and rows."""

    metadata: ListMetadata
    columns: list[_Column] = msgspec.field(default_factory=list, name="columnDefinitions")
    rows: list[_Row] | None = None

    def cells(self, *names: str) -> Iterator[tuple[str, ...]]:
        """Of each row, what is in these columns. Raises Unavailable where the table has others."""
        columns = [column.name for column in self.columns]
        if not set(names).issubset(columns):
            raise Unavailable(f"a table without the columns {' and '.join(names)}: {', '.join(columns)[:200]}")
        places = [columns.index(name) for name in names]
        return (tuple(str(row.cells[place]) for place in places) for row in self.rows or ())


tables = msgspec.json.Decoder(Table)


def statuses(table: Table) -> Iterator[tuple[str, bool | None]]:
    """Name and whether it is Ready, of each node."""
    for name, status in table.cells("Name", "Status"):
        said = status.split(",")
        yield name, None if NO_CONDITION in said else "Ready" in said


def available(table: Table, daemon_set: str) -> Iterator[str]:
    """The nodes of the pods of a DaemonSet that run with every container and every readiness gate in order."""
    for name, ready, status, node, gates in table.cells("Name", "Ready", "Status", "Node", "Readiness Gates"):
        if name[:-GENERATED] == f"{daemon_set}-"[:LONGEST] and status == "Running" and _all(ready) and (gates == "<none>" or _all(gates)):
            yield node


def _all(of: str) -> bool:
    """Whether `2/2` is all."""
    some, _, every = of.partition("/")
    return some == every
