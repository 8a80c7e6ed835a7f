"""Old label keys in manifests: where they stand, what may become of each, and the text with the new ones (docs/migrate.md).

Bytes in, findings and bytes out; nothing is read or written here. Only what a finding names changes: comments, layout, quotes, line
ends and the byte order mark stay as they are. Keys in comments are left alone and not reported: they have no effect.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from shared.domain.cluster_versions import cluster_version
from shared.domain.manifests.places import NOT_A_MANIFEST, Hit, Judged, Verdict

if TYPE_CHECKING:
    from shared.domain.labels.aliases import AliasPair

FLOOR = "1.15"
"""Below it nothing is rewritten (KEP-793): nodes of older clusters may not carry the new keys."""


@dataclass(frozen=True, slots=True)
class Renaming:
    """An old key, the new one, and the first version whose nodes all carry the new one."""

    old: str
    new: str
    since: str = FLOOR


KUBERNETES: tuple[Renaming, ...] = (
    Renaming("beta.kubernetes.io/os", "kubernetes.io/os"),
    Renaming("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    Renaming("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone", "1.17"),
    Renaming("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region", "1.17"),
    Renaming("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type", "1.17"),
)
"""The node labels that Kubernetes renamed: os and arch are stable since 1.14, zone, region and instance type since 1.17."""

_NOT_UTF8 = Verdict("report", "the file is not UTF-8: left alone; save it as UTF-8 and run again")
_DOCUMENT = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)

BETA = frozenset(renaming.old for renaming in KUBERNETES)


class BadRenaming(Exception):
    """Renamings that contradict each other, or name what is no label key. The text says which and why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One old key in one text. `line` and `column` count from 1, columns in characters (not UTF-8: in bytes). `start` and `end` are
    offsets in the text without its byte order mark; `replacement` is what a rewrite puts there.
    """

    line: int
    column: int
    old: str
    new: str
    action: Literal["rewrite", "report"]
    why: str
    start: int = 0
    end: int = 0
    replacement: str = ""


class Bytes(Protocol):
    """What can be searched: bytes, or a file mapped into memory."""

    def find(self, sub: bytes, /) -> int: ...


@dataclass(frozen=True, slots=True)
class Examined:
    """What one text holds, and its bytes with every `rewrite` done (the same object where there is none)."""

    findings: list[Finding]
    data: bytes


@dataclass(frozen=True, slots=True)
class Renamings:
    """The keys to look for, ready to search with."""

    new: dict[str, str]
    since: dict[str, str]
    pattern: re.Pattern[str]
    needles: tuple[bytes, ...] = field(default=())

    @classmethod
    def of(cls, declared: Iterable[Renaming] = ()) -> Renamings:
        """Kubernetes' own renamings and the declared ones, which win. Raises BadRenaming."""
        declared = list(declared)
        problems = list(_wrong(declared)) if declared else []
        by_old = {renaming.old: renaming for renaming in KUBERNETES}
        seen: dict[str, str] = {}
        for renaming in declared:
            if seen.setdefault(renaming.old, renaming.new) != renaming.new:
                problems.append(f"{renaming.old} would become both {seen[renaming.old]} and {renaming.new}: keep one")
            by_old[renaming.old] = renaming
        problems += [f"{r.old}={r.new}: {r.new} is an old key itself: name the last one" for r in by_old.values() if r.new in by_old]
        if problems:
            raise BadRenaming("; ".join(problems))
        keys = sorted(by_old, key=len, reverse=True)
        domains = {key.partition("/")[0].encode() for key in keys}
        return cls(
            new={renaming.old: renaming.new for renaming in by_old.values()},
            since={renaming.old: renaming.since for renaming in by_old.values()},
            pattern=re.compile(rf"(?<![A-Za-z0-9._&*!-])(?:{'|'.join(map(_spelled, keys))})(?![-_.]*[A-Za-z0-9])"),
            needles=tuple(sorted(d for d in domains if not any(other != d and other in d for other in domains))),
        )

    @classmethod
    def from_pairs(cls, pairs: Iterable[AliasPair], declared: Iterable[Renaming] = ()) -> Renamings:
        """Add declared alias pairs: the secondary is the old key. Pairs that end at a version (`before`) are on their way out."""
        return cls.of([*(Renaming(p.secondary, p.primary, p.from_ or FLOOR) for p in pairs if not p.before), *declared])

    def may_hold(self, data: Bytes) -> bool:
        """Whether some old key's domain stands in these bytes: the cheap look before any reading."""
        return any(data.find(needle) >= 0 for needle in self.needles)

    def hits(self, text: str) -> list[Hit]:
        """Every old key in a text, in its order."""
        spotted = []
        for line in self._lines_with_a_needle(text):
            for match in self.pattern.finditer(text, *line):
                separator = next((mark for mark in ("~1", "\\/") if mark in match[0]), "/")
                spotted.append(Hit(match.start(), match.end(), match[0].replace(separator, "/"), separator))
        return spotted

    def _lines_with_a_needle(self, text: str) -> list[tuple[int, int]]:
        """The spans of the lines worth searching: plain search finds them many times faster than the pattern would."""
        spans = set()
        for needle in self.needles:
            at = text.find(needle.decode())
            while at >= 0:
                end = text.find("\n", at)
                end = len(text) if end < 0 else end
                spans.add((text.rfind("\n", 0, at) + 1, end))
                at = text.find(needle.decode(), end)
        return sorted(spans)

    def too_early(self, old: str, target: str) -> str:
        """Say why a key may not be rewritten for a cluster version; empty if it may."""
        since = max(FLOOR, self.since[old], key=cluster_version)
        return "" if cluster_version(target) >= cluster_version(since) else f"nodes of {target} may not carry it yet: from {since}"


def _wrong(declared: Iterable[Renaming]) -> Iterator[str]:
    """What is wrong with declared renamings. What an alias pair is comes with the documents' models, which few runs need."""
    from shared.domain.labels.aliases import AliasPair, check_pairs

    for renaming in declared:
        for problem in check_pairs([AliasPair(renaming.new, renaming.old)]):
            yield f"{renaming.old}={renaming.new}: {problem.message}"


def _spelled(key: str) -> str:
    """A key as files write it: plain, in a JSON pointer (`~1`), in JSON with an escaped slash."""
    return re.escape(key).replace("/", r"(?:/|~1|\\/)")


def examine(data: bytes, renamings: Renamings, *, target: str = "", manifest: bool = True) -> Examined:
    """Find the old keys in a file's bytes and decide for each. `target`: the cluster version that the manifests are for (empty: the
    newest). `manifest`: whether the file is one; elsewhere keys are only reported.
    """
    if not renamings.may_hold(data):
        return Examined([], data)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        body = data.decode("latin-1")
        return Examined(_findings(body, [(hit, _NOT_UTF8) for hit in renamings.hits(body)], renamings, target), data)
    body = text.removeprefix("\ufeff")
    hits = renamings.hits(body)
    judged = _judge(body, hits, renamings) if manifest else [(hit, NOT_A_MANIFEST) for hit in hits]
    findings = _findings(body, judged, renamings, target)
    changed = _rewritten(body, findings)
    return Examined(findings, data if changed == body else text[: len(text) - len(body)].encode() + changed.encode())


def _judge(text: str, hits: Sequence[Hit], renamings: Renamings) -> list[Judged]:
    """Judge document by document, reading only those that hold a hit: as YAML where it is YAML, else as a template."""
    from shared.domain.manifests.templates import read_template
    from shared.domain.manifests.trees import read_document

    starts = [0, *(match.start() for match in _DOCUMENT.finditer(text) if match.start()), len(text)]
    by_document: dict[int, list[Hit]] = {}
    for hit in hits:
        by_document.setdefault(bisect_right(starts, hit.start) - 1, []).append(hit)
    judged: list[Judged] = []
    templates: list[Hit] = []
    for index, inside in by_document.items():
        start, end = starts[index], starts[index + 1]
        verdicts = read_document(
            text[start:end],
            [hit.moved(-start) for hit in inside],
            lambda inner: _judge(inner, renamings.hits(inner), renamings),
            new=renamings.new,
            beta=BETA,
        )
        if verdicts is None:
            templates += inside
        else:
            judged += [(hit.moved(start), verdict) for hit, verdict in verdicts]
    if templates:
        judged += read_template(text, templates, new=renamings.new, beta=BETA)
    return sorted(judged, key=lambda one: one[0].start)


def _findings(text: str, judged: Iterable[Judged], renamings: Renamings, target: str) -> list[Finding]:
    findings = []
    row, at = 1, 0
    for hit, verdict in judged:
        row += _line_ends(text, at, hit.start)
        at = hit.start
        column = at - max(text.rfind("\n", 0, at), text.rfind("\r", 0, at))
        new = renamings.new[hit.old]
        early = renamings.too_early(hit.old, target) if verdict.action == "rewrite" else ""
        action: Literal["rewrite", "report"] = "rewrite" if verdict.action == "rewrite" and not early else "report"
        findings.append(Finding(row, column, hit.old, new, action, early or verdict.why, at, hit.end, new.replace("/", hit.separator)))
    return findings


def _line_ends(text: str, start: int, end: int) -> int:
    """Count the lines that end in a stretch: LF, CRLF and a lone CR. (No hit begins between a CR and its LF.)"""
    return text.count("\n", start, end) + text.count("\r", start, end) - text.count("\r\n", start, end)


def _rewritten(text: str, findings: Sequence[Finding]) -> str:
    parts, at = [], 0
    for finding in findings:
        if finding.action == "rewrite":
            parts += [text[at : finding.start], finding.replacement]
            at = finding.end
    return "".join(parts) + text[at:] if parts else text
