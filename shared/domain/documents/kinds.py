"""Hullmark's own kinds, `hullmark.dev/v1`: what an operator may write (docs/documents.md), an unknown field being an error."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Strict, Tag, ValidationError, model_validator

from shared.domain.clusters import ClusterMatch as ClusterMatch
from shared.domain.documents.access import NO_FILES, Access
from shared.domain.documents.reading import Document, Path, Problem, type_name
from shared.domain.documents.strict import StrictModel, field_name
from shared.domain.nodes import Taint
from shared.domain.zones import zone

API_VERSION = "hullmark.dev/v1"

Names = Annotated[list[str], Field(min_length=1)]
"""A list that says something: an empty one might mean all or none, so it is refused."""


_Text = Annotated[str, Strict()]


class Metadata(StrictModel):
    """A document's name; unique among the documents of its kind."""

    name: Annotated[str, Field(min_length=1)]


class HullmarkDocument(StrictModel):
    """What every kind has."""

    api_version: Literal["hullmark.dev/v1"]
    metadata: Metadata

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.metadata.name

    @property
    def title(self) -> str:
        """`Kind/name`, as sources and problems show it."""
        return f"{type(self).__name__}/{self.metadata.name}"


class Expression(StrictModel):
    """One requirement of Kubernetes' label selectors."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = []

    @model_validator(mode="after")
    def _values_where_they_belong(self) -> Self:
        if self.operator in ("In", "NotIn") and not self.values:
            raise ValueError(f"{self.operator} needs values")
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            raise ValueError(f"{self.operator} takes no values")
        return self


class NodeMatch(StrictModel):
    """Which nodes: every criterion given must hold; values inside `names`, `tags` and `racks` are alternatives."""

    names: Names | None = None
    match_labels: dict[str, str] | None = None
    match_expressions: list[Expression] | None = None
    tags: Names | None = None
    racks: Names | None = None

    @property
    def restricts(self) -> bool:
        """Whether any criterion is given."""
        return bool(self.names or self.match_labels or self.match_expressions or self.tags or self.racks)


_LIST, _CRITERIA = "[list]", "[criteria]"
_Clusters = Annotated[
    Annotated[Names, Tag(_LIST)] | Annotated[ClusterMatch, Tag(_CRITERIA)],
    Discriminator(lambda given: _CRITERIA if isinstance(given, dict | ClusterMatch) else _LIST),
]
"""A list of names, or criteria. A value that is neither is told as no list."""

OnConflict = Literal["force", "skip", "fail"]
Prune = Literal["owned", "all"]


class StartupTaint(StrictModel):
    """A taint that nodes register with: `value` is empty where the template gives it none."""

    key: _Text
    effect: _Text
    value: _Text = ""


class Until(StrictModel):
    """What stands on a node until the policy's labels are there."""

    taint: StartupTaint


class NodeLabelPolicySpec(StrictModel):
    """Labels for the nodes that it selects."""

    clusters: _Clusters | None = None
    nodes: NodeMatch = NodeMatch()
    exclude: NodeMatch | None = None
    labels: dict[str, str] = {}
    priority: int = 0
    prune: Prune = "owned"
    on_conflict: OnConflict | None = None
    allow_protected: bool = False
    until: Until | None = None

    @model_validator(mode="after")
    def _exclude_says_whom(self) -> Self:
        if self.exclude is not None and not self.exclude.restricts:
            raise ValueError("`exclude` names no criterion, which would exclude every node: leave it out or say whom")
        return self

    @property
    def startup_taint(self) -> Taint | None:
        """The taint that goes when the labels are there."""
        named = self.until.taint if self.until else None
        return Taint(named.key, named.effect, named.value) if named else None

    @cached_property
    def where(self) -> ClusterMatch | None:
        """Which clusters it is for, in whichever form that is written; None: every cluster."""
        return ClusterMatch(names=self.clusters) if isinstance(self.clusters, list) else self.clusters


class NodeLabelPolicy(HullmarkDocument):
    """See NodeLabelPolicySpec."""

    kind: Literal["NodeLabelPolicy"]
    spec: NodeLabelPolicySpec


class LabelRulesSpec(StrictModel):
    """`allow_protected` holds for every document. `keep_domains`, where given, stands in place of the default. `on_conflict` holds for the
    policies that say none.
    """

    allow_protected: list[str] = []
    keep_domains: list[str] | None = None
    on_conflict: OnConflict = "force"


class LabelRules(HullmarkDocument):
    """At most one in a site."""

    kind: Literal["LabelRules"]
    spec: LabelRulesSpec = LabelRulesSpec()


_SHARE = re.compile(r"(100|\d{1,2}(\.\d{1,3})?)%")


def _number_or_share(value: object) -> object:
    if isinstance(value, str) and _SHARE.fullmatch(value):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError('a whole number of nodes, or a share of the cluster\'s nodes from "0%" to "100%"')


class Limit(StrictModel):
    """How many nodes of a cluster one action may touch in one way: a number, or a share as text, `"10%"`."""

    nodes: Annotated[int | str, BeforeValidator(_number_or_share)]


class LimitsSpec(StrictModel):
    """On how many nodes labels may be removed, taken over from others, or changed at all, before a person must accept it.

    What is left out has its default (docs/limits.md).
    """

    removals: Limit | None = None
    takeovers: Limit | None = None
    changes: Limit | None = None


class Limits(HullmarkDocument):
    """At most one in a site."""

    kind: Literal["Limits"]
    spec: LimitsSpec = LimitsSpec()


class FreezeSpec(StrictModel):
    """A time in which nothing changes: actions are refused and rollouts wait, sweeps and events still repair (docs/freezes.md).

    `from` and `until` are RFC 3339 times with an offset, or without one and with a `timeZone`.
    """

    from_: _Text = Field(alias="from")
    until: _Text
    time_zone: str | None = None
    clusters: ClusterMatch | None = None
    change: Literal["labels", "versions", "all"] = "all"
    reason: Annotated[_Text, Field(min_length=1)]
    allow_forced: bool = False

    @model_validator(mode="after")
    def _a_span_of_time(self) -> Self:
        begins, ends = self.span
        if ends <= begins:
            raise ValueError("`until` is not after `from`")
        return self

    @cached_property
    def span(self) -> tuple[datetime, datetime]:
        """When it begins and ends, in UTC. Raises ValueError."""
        return self._moment("from", self.from_), self._moment("until", self.until)

    def _moment(self, field: str, written: str) -> datetime:
        try:
            moment = datetime.fromisoformat(written)
        except ValueError as error:
            raise ValueError(f"`{field}`: {written[:40]!r} is no RFC 3339 time such as 2026-12-24T18:00:00+01:00") from error
        if moment.tzinfo is None:
            if self.time_zone is None:
                raise ValueError(f"`{field}` has no offset: write one (2026-12-24T18:00:00+01:00), or give `timeZone`")
            moment = moment.replace(tzinfo=zone(self.time_zone))
        try:
            return moment.astimezone(UTC)
        except OverflowError as error:
            raise ValueError(f"`{field}`: {written!r} is too far away") from error


class Freeze(HullmarkDocument):
    """See FreezeSpec."""

    kind: Literal["Freeze"]
    spec: FreezeSpec


_SPAN = re.compile(r"(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,7})s)?")


def seconds(span: str) -> int:
    """The seconds of a span of time such as `90s`, `10m`, `1h30m` or `2d`. Raises ValueError."""
    found = _SPAN.fullmatch(span)
    if not span or found is None:
        raise ValueError("a span of time is written with d, h, m and s, in this order: `90s`, `10m`, `1h30m`, `2d`")
    days, hours, minutes, rest = (int(number or 0) for number in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def _span(value: object) -> object:
    if isinstance(value, str):
        seconds(value)
    return value


Span = Annotated[str, BeforeValidator(_span)]


def _percent(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 100:
        raise ValueError("a number above 0 and at most 100, without a percent sign")
    return float(value)


def _some_or_share(value: object) -> object:
    if value == 0 or (isinstance(value, str) and value.removesuffix("%").strip("0.") == ""):
        raise ValueError('at least 1 node, or a share of the stage\'s nodes above "0%"')
    return _number_or_share(value)


Approval = Literal["none", "before", "after"]


class StageSpec(StrictModel):
    """A part of a rollout's nodes that gets the change together. A node belongs to the first stage that means it.

    `percent` is a share of the nodes that the stage's other criteria select in a cluster, at least one of them, chosen by a hash of the
    name: a larger percentage contains a smaller one.
    """

    name: Annotated[str, Field(min_length=1, max_length=63)]
    nodes: NodeMatch = NodeMatch()
    percent: Annotated[float, BeforeValidator(_percent)] | None = None
    clusters: ClusterMatch | None = None
    max_in_flight: Annotated[int | str, BeforeValidator(_some_or_share)] | None = None
    soak: Span = "0s"
    approval: Approval = "none"


class StopWhen(StrictModel):
    """How many nodes of a stage may fail, and how many pods of DaemonSets its labels may end: one more stops the rollout."""

    failed: Annotated[int | str, BeforeValidator(_number_or_share)] = 0
    impact: Annotated[int, Field(ge=0, strict=True)] | None = None


class Health(StrictModel):
    """What has to stay in order at the nodes of a stage, until the next one opens. The last two need the right to list every pod."""

    nodes_ready: bool = True
    daemon_sets: bool = False
    unschedulable_pods: bool = False


REST = "rest"
"""The last stage of every rollout: the nodes that no other stage means."""


class RolloutSpec(StrictModel):
    """How a change reaches the nodes: stage by stage (docs/rollouts.md)."""

    change: Literal["labels", "versions"] = "labels"
    clusters: ClusterMatch | None = None
    start: Literal["manual", "onCommit"] = "manual"
    stages: list[StageSpec] = []
    stop_when: StopWhen = StopWhen()
    on_stop: Literal["pause", "revert"] = "pause"
    health: Health = Health()

    @model_validator(mode="after")
    def _each_stage_once(self) -> Self:
        names = [stage.name for stage in self.stages]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two stages are named {twice[0]}")
        if REST in names[:-1]:
            raise ValueError(f"`{REST}` is the last stage: it has the nodes that no other one means")
        return self

    @model_validator(mode="after")
    def _versions_go_by_cluster_and_never_back(self) -> Self:
        if self.change == "versions":
            if self.stop_when.impact is not None:
                raise ValueError("stopWhen.impact: a rollout of versions changes no labels, so that none of them can end a pod")
            if selecting := next((stage.name for stage in self.stages if stage.nodes.restricts), None):
                raise ValueError(f"stage {selecting}: a rollout of versions goes cluster by cluster: `clusters` selects them, not `nodes`")
            if self.on_stop == "revert":
                raise ValueError("onStop: a Kubernetes version cannot be taken back; only `pause` is possible where `change` is `versions`")
        return self


def stages_of(spec: RolloutSpec) -> list[StageSpec]:
    """The stages of a rollout, the rest at the end."""
    return [*spec.stages, *([] if spec.stages and spec.stages[-1].name == REST else [StageSpec(name=REST)])]


class Rollout(HullmarkDocument):
    """See RolloutSpec."""

    kind: Literal["Rollout"]
    spec: RolloutSpec = RolloutSpec()


class TimeWindow(StrictModel):
    """Gardener's form, e.g. `220000+0100`; its rules are checked with the version rules."""

    begin: str
    end: str


class AutoUpdate(StrictModel):
    """Which updates happen by themselves."""

    kubernetes_version: bool = True
    machine_image_version: bool = True


class Maintenance(StrictModel):
    """When a cluster may be changed, and what changes by itself."""

    time_window: TimeWindow | None = None
    time_zone: str | None = None
    auto_update: AutoUpdate | None = None


class ClusterSpec(StrictModel):
    """A cluster that is not described by a Shoot."""

    access: Access | None = None
    provider: Literal["gardener", "gke", "eks", "none"] = "none"
    cloud_profile: str | None = None
    maintenance: Maintenance | None = None


class ClusterMetadata(Metadata):
    """A cluster's name, and the labels by which policies select it."""

    labels: dict[str, str] = {}


class Cluster(HullmarkDocument):
    """See ClusterSpec."""

    kind: Literal["Cluster"]
    metadata: ClusterMetadata
    spec: ClusterSpec = ClusterSpec()


GeneratedFrom = Literal["rack", "tag", "hardwareProfile", "hostProfile", "hostname"]


class GeneratedLabelsSpec(StrictModel):
    """A label generated from the design: `key` gets the property of the node that `from` names (docs/documents.md)."""

    from_: GeneratedFrom
    key: str


class GeneratedLabels(HullmarkDocument):
    """See GeneratedLabelsSpec."""

    kind: Literal["GeneratedLabels"]
    spec: GeneratedLabelsSpec


@dataclass(frozen=True, slots=True)
class AliasPair:
    """`secondary` follows `primary`; where it is absent it is created only if `ensure_secondary_exists`.

    In force for cluster versions in [`from_`, `before`); None is no bound. One value from the document to the decision; no model, because
    decisions look it up by its hash, node by node.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", alias_generator=field_name)
    primary: _Text
    secondary: _Text
    ensure_secondary_exists: Annotated[bool, Strict()] = False
    from_: _Text | None = None
    before: _Text | None = None


class LabelAliasesSpec(StrictModel):
    """See AliasPair."""

    pairs: list[AliasPair]


class LabelAliases(HullmarkDocument):
    """See AliasPair."""

    kind: Literal["LabelAliases"]
    spec: LabelAliasesSpec


class Namespaces(StrictModel):
    """Of which namespaces; none named: all."""

    include: list[str] | None = None
    exclude: list[str] | None = None


TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "kubernetes.io/hostname")


class PodLabelPolicySpec(StrictModel):
    """Keys that pods get from their node. `topology` are exact keys, `extra` exact keys or `prefix/*`."""

    enabled: bool = True
    topology: list[str] = list(TOPOLOGY)
    extra: list[str] = []
    namespaces: Namespaces = Namespaces()
    as_annotations: bool = False


class PodLabelPolicy(HullmarkDocument):
    """See PodLabelPolicySpec."""

    kind: Literal["PodLabelPolicy"]
    spec: PodLabelPolicySpec = PodLabelPolicySpec()


KINDS: Mapping[str, type[HullmarkDocument]] = {
    model.__name__: model
    for model in (NodeLabelPolicy, LabelRules, Cluster, GeneratedLabels, LabelAliases, PodLabelPolicy, Limits, Rollout, Freeze)
}
"""Hullmark's kinds by name."""
ONCE = ("LabelRules", "Limits")
"""Kinds of which a site has one at most."""


def parsed(document: Document) -> HullmarkDocument | list[Problem]:
    """The document as its kind's model, or everything that is wrong with it."""
    model = KINDS[document.kind]
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        return list(problems_of(error, model, document))


_ROUNDS = 5
"""Times that what is wrong is taken out of a document: a field behind a wrong one may be wrong itself."""


def parsed_in_part(document: Document) -> HullmarkDocument | None:
    """The model of what is left of a document without the fields that `parsed` refuses, so that its other rules can be checked in the
    same answer. None where too little is left. Says nothing about other documents: what was taken out may have set this one apart.
    """
    model, data = KINDS[document.kind], copy.deepcopy(dict(document.data))
    for _ in range(_ROUNDS):
        try:
            return model.model_validate(data)
        except ValidationError as error:
            wrong = {_field_of(flaw["loc"]) for flaw in error.errors(include_url=False)}
            if not all(_taken_out(data, path) for path in sorted(wrong, key=len, reverse=True)):
                return None
    return None


def _field_of(loc: Sequence[int | str]) -> Path:
    """The field that an error is in. Of a list that is all of it: without a wrong item, those behind it would have others' numbers."""
    path = tuple(step for step in loc if step not in _NO_STEPS)
    while path and isinstance(path[-1], int):
        path = path[:-1]
    return path


def _taken_out(data: Any, path: Path) -> bool:
    """Take the field at a place out; whether one stood there. A missing field can't be taken out."""
    for step in path[:-1]:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return False
    return bool(path) and isinstance(data, dict) and data.pop(path[-1], data) is not data


_NO_STEPS = ("[key]", _LIST, _CRITERIA)
"""What pydantic puts into the place of an error, and no document has."""


def problems_of(error: ValidationError, model: type[BaseModel], document: Document, base: Path = ()) -> Iterator[Problem]:
    """Pydantic's errors as problems of the document; `base` is where the model begins in it."""
    for flaw in error.errors(include_url=False):
        path = tuple(step for step in flaw["loc"] if step not in _NO_STEPS)
        type_, message = _field_error(flaw["type"], flaw, model, path)
        yield document.problem(base + path, type_, message)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`: did you mean x?`, where something known looks like it; else empty."""
    folded = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), list(folded), n=1, cutoff=0.6)
    return f": did you mean {folded[close[0]]}?" if close else ""


_WANTED = {"string_type": "text", "list_type": "a list", "dict_type": "a mapping", "model_type": "a mapping", "dataclass_type": "a mapping",
           "int_type": "a whole number", "bool_type": "true or false", "int_from_float": "a whole number"}  # fmt: skip
_ADVICE = {("string_type", "a number"): ": put it in quotes", ("string_type", "true or false"): ": put it in quotes",
           ("list_type", "text"): ": write it as [value]", ("int_type", "text"): ": leave the quotes out",
           ("bool_type", "text"): ": write true or false, without quotes"}  # fmt: skip


def _field_error(kind: str, error: Any, model: type[BaseModel], path: Path) -> tuple[str, str]:
    """Kubernetes' word for it and what to do, for one of pydantic's error types."""
    name, value = path[-1] if path else "", error["input"]
    if kind == "missing":
        return "Required", f"`{name}` is required"
    unknown = kind in ("extra_forbidden", "unexpected_keyword_argument")
    if unknown and path[-2:] in NO_FILES:
        return "Forbidden", NO_FILES[path[-2:]]
    if unknown:
        return "Unknown", f"unknown field `{name}`{did_you_mean(str(name), _fields_at(model, path[:-1]))}"
    if kind == "literal_error":
        known = error["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        given = value if isinstance(value, str) else type_name(value)
        return "NotSupported", f"`{given}` is not one of {', '.join(known)}{did_you_mean(str(given), known)}"
    if kind in _WANTED:
        given = type_name(value)
        return "Invalid", f"must be {_WANTED[kind]}, not {given}{_ADVICE.get((kind, given), '')}"
    if kind in ("too_short", "string_too_short"):
        return "Invalid", "must not be empty: leave it out, or name something"
    return "Invalid", error["msg"].removeprefix("Value error, ")


def _fields_at(model: type[BaseModel] | type[AliasPair] | None, path: Path) -> list[str]:
    for step in path:
        if model is not None and isinstance(step, str):
            model = next((_model_in(annotation) for name, annotation in _fields_of(model) if name == step), None)
    return [name for name, _ in _fields_of(model)] if model else []


def _fields_of(model: type[BaseModel] | type[AliasPair]) -> list[tuple[str, Any]]:
    """Each field's name in a document, and what it holds."""
    if issubclass(model, BaseModel):
        return [(str(field.alias), field.annotation) for field in model.model_fields.values()]
    return [(field_name(field.name), field.type) for field in fields(model)]


def _model_in(annotation: Any) -> type[BaseModel] | type[AliasPair] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel | AliasPair):
        return annotation
    return next((inner for argument in get_args(annotation) if (inner := _model_in(argument))), None)
