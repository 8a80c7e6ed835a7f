"""Old label keys in manifests: where they stand, what may become of each, and the text with the new ones (docs/migrate.md).

Bytes in, findings and bytes out; nothing is read or written here. Only what a finding names changes: comments, layout, quotes, line
ends and the byte order mark stay as they are. Keys in comments and prose have no effect: they are counted, and found on request.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from shared.domain.cluster_versions import cluster_version
from shared.domain.manifests.places import COMMENT, NOT_A_MANIFEST, Hit, Judged, Verdict

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
    comments: int = 0
    """Old keys in comments and prose that are not among the findings."""
    kept: int = 0
    """Old keys that a comment says to keep."""


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
            pattern=re.compile(rf"(?:{_AT_PLAIN}(?:{_any_of(keys, _PLAIN)})|{_AT_STEP}(?:{_any_of(keys, _ESCAPED)}))(?![-_.]*[A-Za-z0-9])"),
            needles=_needles(domains),
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
        spotted: list[Hit] = []
        for line in self._lines_with_a_needle(text):
            spotted += map(_hit, self.pattern.finditer(text, *line))
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


_DOTS = (".", "\\.", "\\\\.")
"""How a dot is written: plain, in a JSONPath, in a JSONPath inside double quotes."""


def _needles(domains: Iterable[bytes]) -> tuple[bytes, ...]:
    """What stands in every text that holds an old key, as few as will do."""
    domains = set(domains)
    least = sorted(d for d in domains if not any(other != d and other in d for other in domains))
    return tuple(dict.fromkeys(d.replace(b".", dot.encode()) for dot in _DOTS for d in least))


_AT_PLAIN = r"(?<![A-Za-z0-9._&*!-])"
_AT_STEP = r"(?<=[\w\])]\.)"
"""Where a key may begin: not inside a longer one; in a JSONPath behind a step's dot, which is not escaped itself."""
_PLAIN, _ESCAPED = r"\.", r"\\{1,2}\."


def _any_of(keys: Iterable[str], dot: str) -> str:
    """Keys as files write them: plain, in a JSON pointer (`~1`), in JSON with an escaped slash; their dots as the pattern says."""
    return "|".join(re.escape(key).replace("/", r"(?:/|~1|\\/)").replace(r"\.", dot) for key in keys)


def _hit(match: re.Match[str]) -> Hit:
    written = match[0]
    separator = next((mark for mark in ("~1", "\\/") if mark in written), "/")
    plain = written.replace(separator, "/")
    dot = next((dot for dot in reversed(_DOTS) if dot in plain), ".")
    return Hit(match.start(), match.end(), plain.replace(dot, "."), separator, dot)


def examine(data: bytes, renamings: Renamings, *, target: str = "", manifest: bool = True, comments: bool = False) -> Examined:
    """Find the old keys in a file's bytes and decide for each. `target`: the cluster version that the manifests are for (empty: the
    newest). `manifest`: whether the file is one; elsewhere keys are only reported. `comments`: rewrite comments and prose, too.
    """
    if not renamings.may_hold(data):
        return Examined([], data)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        body = data.decode("latin-1")
        return Examined(_findings(body, [(hit, _NOT_UTF8) for hit in renamings.hits(body)], renamings, target), data)
    body = text.removeprefix("\ufeff")
    everything = renamings.hits(body)
    hits = [hit for hit in everything if not _says_keep(body, hit)]
    judged = _judge(body, hits, renamings) if manifest else [(hit, NOT_A_MANIFEST) for hit in hits]
    judged += _in_comments(body, hits, judged) if manifest else ()
    silent = sum(verdict.action == "comment" for _, verdict in judged)
    told = [(hit, verdict) for hit, verdict in judged if comments or verdict.action != "comment"]
    findings = _findings(body, sorted(told, key=lambda one: one[0].start), renamings, target)
    changed = _rewritten(body, findings)
    after = data if changed == body else text[: len(text) - len(body)].encode() + changed.encode()
    return Examined(findings, after, 0 if comments else silent, len(everything) - len(hits))


_KEEP = re.compile(r"hullmark: keep\b")


def _says_keep(text: str, hit: Hit) -> bool:
    """Whether a comment beside the hit, or alone in the line above it, says `hullmark: keep`."""
    start, end = text.rfind("\n", 0, hit.start) + 1, text.find("\n", hit.end)
    above = text[text.rfind("\n", 0, max(start - 1, 0)) + 1 : start].strip()
    return bool(_KEEP.search(text, hit.end, end if end >= 0 else len(text)) or (above[:1] in ("#", "{") and _KEEP.search(above)))


def _in_comments(text: str, hits: Iterable[Hit], judged: Iterable[Judged]) -> list[Judged]:
    """What nobody has judged, where it stands in a comment: behind a `#`."""
    from shared.domain.manifests.templates import in_comment

    known = {hit for hit, _ in judged}
    return [(hit, COMMENT) for hit in hits if hit not in known and in_comment(text, hit.start)]


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
        meant = verdict.action in ("rewrite", "comment")
        early = renamings.too_early(hit.old, target) if meant else ""
        action: Literal["rewrite", "report"] = "rewrite" if meant and not early else "report"
        findings.append(Finding(row, column, hit.old, new, action, early or verdict.why, at, hit.end, _as_written(new, hit)))
    return findings


def _as_written(new: str, hit: Hit) -> str:
    return new.replace("/", hit.separator).replace(".", hit.dot)


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
