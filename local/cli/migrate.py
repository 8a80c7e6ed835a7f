"""`hullmark migrate`: find old label keys in manifests and on request rewrite them; the same question to a live cluster."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from local.cli.inputs import documents_option, read_files
from local.cli.output import ERROR, OK, PENDING, Failure, counted, emit
from local.manifests.files import ChangedMeanwhile, is_manifest, read_if, replace, walk
from shared.adapters.files import NotReadable
from shared.domain.cluster_versions import NEWEST, cluster_version
from shared.domain.manifests.findings import BadRenaming, Finding, Renaming, Renamings, examine

if TYPE_CHECKING:
    from shared.domain.labels.aliases import AliasPair

_INFORMATION = "https://kubernetes.io/docs/reference/labels-annotations-taints/"


@dataclass(frozen=True, slots=True)
class Located:
    """A finding and the file (or live object) that it is in."""

    file: str
    finding: Finding

    def as_json(self) -> dict[str, Any]:
        finding = self.finding
        return {"file": self.file, **{name: getattr(finding, name) for name in ("line", "column", "old", "new", "action", "why")}}

    def as_text(self) -> str:
        """`FILE:LINE:COLUMN: what`, as compilers print it, so that editors can jump there."""
        finding = self.finding
        return f"{self.file}:{finding.line}:{finding.column}: {finding.action}: {finding.old} -> {finding.new} ({finding.why})"


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH…")
@click.option("--write", is_flag=True, help="Rewrite the files: only findings marked `rewrite`.")
@click.option("--check", is_flag=True, help="For CI: write nothing; exit 2 if an old key is found.")
@click.option("--comments", is_flag=True, help="Comments and prose too: they have no effect, and are only counted without this.")
@click.option("--exclude", "excluded", multiple=True, metavar="GLOB", help="Pass by files and folders by name or path (repeatable).")
@click.option("--target-version", default="", metavar="V", help="Oldest cluster version that the manifests are for. Default: the newest.")
@click.option("--pair", "pairs", multiple=True, metavar="OLD=NEW", help="One more key to migrate (repeatable).")
@click.option("--context", metavar="C", help="Search the live objects of this kubeconfig context too; they are only reported.")
@click.option("--kubeconfig", default="", metavar="FILE", help="The kubeconfig. Default: $KUBECONFIG, else ~/.kube/config.")
@documents_option
@click.option("-o", "--output", "form", type=click.Choice(["table", "json", "yaml", "sarif"]), default="table", show_default=True)
def migrate(
    paths: tuple[str, ...],
    write: bool,
    check: bool,
    comments: bool,
    excluded: tuple[str, ...],
    target_version: str,
    pairs: tuple[str, ...],
    context: str | None,
    kubeconfig: str,
    files: tuple[str, ...],
    form: str,
) -> int:
    """Find old node label keys in manifests, Helm charts and Kustomize trees, and rewrite them with --write.

    A line with `# hullmark: keep`, or below one that says only this, is left alone.

    Exit code 0: none, or all rewritten; 2: old keys found (or left after --write); 1: error. With -f, pairs of LabelAliases
    documents count too: their secondary key is the old one.
    """
    if write and check:
        raise Failure("Usage", "--check writes nothing: give --write or --check")
    if not paths and not context:
        raise Failure("Usage", "say where to look: files or folders, or --context for a live cluster")
    if kubeconfig and not context:
        raise Failure("Usage", "--kubeconfig is for live objects: say which context's, with --context")
    if target_version and cluster_version(target_version) == NEWEST:
        raise Failure("Usage", f"--target-version {target_version!r} is not a cluster version such as 1.18")
    renamings = _renamings(pairs, files, target_version)
    search = Search(renamings, target_version, write, comments, excluded)
    located = list(search.in_files(paths))
    if context:
        from local.manifests.live import live_objects

        located += [
            Located(name, finding)
            for name, data in live_objects(context, kubeconfig=kubeconfig)
            for finding in _only_reported(examine(data, renamings, target=target_version).findings)
        ]
    if form == "sarif":
        click.echo(json.dumps(sarif(located), indent=2, ensure_ascii=False))
    elif form == "table":
        click.echo("".join(f"{one.as_text()}\n" for one in located), nl=False)
    else:
        emit(form, {"findings": [one.as_json() for one in located]}, list)
    for error in search.errors:
        click.echo(f"error: {error}", err=True)
    for file, version in search.for_old_versions.items():
        click.echo(f"warning: {file} is named for {version}, whose nodes may not carry the new keys: --exclude it if so", err=True)
    left = [one for one in located if not (write and one.finding.action == "rewrite")]
    if form == "table":
        click.echo(_summary(located, write) + search.besides(), err=True)
    return ERROR if search.errors else PENDING if left else OK


def _renamings(pairs: Sequence[str], files: Sequence[str], target: str) -> Renamings:
    declared = []
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not (old and equals and new):
            raise Failure("Usage", f"--pair {pair!r}: write it as OLD=NEW")
        declared.append(Renaming(old, new))
    try:
        return Renamings.from_pairs(_declared_pairs(files, target) if files else (), declared)
    except BadRenaming as error:
        raise Failure("Usage", str(error)) from error


def _declared_pairs(files: Sequence[str], target: str) -> Sequence[AliasPair]:
    """Read the pairs of every LabelAliases document that hold at a version. Raises DocumentsRefused."""
    from shared.domain.documents.kinds import LabelAliases, parsed
    from shared.domain.documents.reading import DocumentsRefused, read
    from shared.domain.labels.aliases import check_pairs, in_force

    documents, problems = read(read_files(files))
    pairs: list[AliasPair] = []
    for document in documents:
        model = parsed(document) if document.kind == "LabelAliases" else None
        if isinstance(model, list):
            problems += model
        elif isinstance(model, LabelAliases):
            pairs += model.spec.pairs
            problems += [document.problem(("spec", "pairs", p.index, p.field), p.type, p.message) for p in check_pairs(model.spec.pairs)]
    if problems:
        raise DocumentsRefused(problems)
    return in_force(pairs, target)


@dataclass
class Search:
    """Looks through files, every one once; one that can't be read or written is an error, and the others still count."""

    renamings: Renamings
    target: str
    write: bool
    comments: bool
    excluded: Sequence[str] = ()
    errors: list[str] = field(default_factory=list)
    for_old_versions: dict[str, str] = field(default_factory=dict)
    """Files with rewrites whose names say a version that is too old for the new keys, and that version."""
    silent: int = 0
    kept: int = 0

    def in_files(self, paths: Sequence[str]) -> Iterator[Located]:
        """Every finding, file by file."""
        seen: set[str] = set()
        for path in paths:
            try:
                for file in walk(path, self._passed_by) if self.excluded else walk(path):
                    if file not in seen:
                        seen.add(file)
                        yield from self._in_file(file)
            except OSError as error:
                self.errors.append(f"{error.filename or path}: {error.strerror}")

    def besides(self) -> str:
        """What was seen that is no finding, for the summary."""
        silent = f"{self.silent} more in comments and prose (--comments)" if self.silent else ""
        kept = f"{self.kept} kept as a comment says" if self.kept else ""
        return "".join(f"; {said}" for said in (silent, kept) if said)

    def _passed_by(self, path: str) -> bool:
        """By its name, its path as it was given, or any ending of that path."""
        name = os.path.basename(path)
        return any(fnmatch.fnmatchcase(name, glob) or fnmatch.fnmatchcase(f"/{path}", f"*/{glob.rstrip('/')}") for glob in self.excluded)

    def _in_file(self, file: str) -> list[Located]:
        try:
            data = read_if(file, self.renamings.may_hold)
            if data is None:
                return []
            examined = examine(data, self.renamings, target=self.target, manifest=is_manifest(file), comments=self.comments)
            if self.write and examined.data != data:
                replace(file, data, examined.data)
        except OSError as error:
            self.errors.append(f"{file}: {error.strerror}")
            return []
        except NotReadable as error:
            self.errors.append(f"{file}: {error}")
            return []
        except ChangedMeanwhile as error:
            self.errors.append(str(error))
            return []
        self.silent += examined.comments
        self.kept += examined.kept
        if old := _named_for(file, self.renamings, examined.findings):
            self.for_old_versions[file] = old
        return [Located(file, finding) for finding in examined.findings]


_VERSION = re.compile(r"(?<![\d.])v?(1[._]\d{1,2})(?!\d)")


def _named_for(file: str, renamings: Renamings, findings: Sequence[Finding]) -> str:
    """The Kubernetes version that a file or its folder is named for, where a key that was or would be rewritten is too new for it."""
    for said in _VERSION.findall(os.path.join(os.path.basename(os.path.dirname(file)), os.path.basename(file))):
        version = said.replace("_", ".")
        if any(finding.action == "rewrite" and renamings.too_early(finding.old, version) for finding in findings):
            return str(version)
    return ""


def _only_reported(findings: Sequence[Finding]) -> Iterator[Finding]:
    """What may be rewritten in a file is only told about a live object: its manifest is what has to change."""
    for finding in findings:
        why = f"live {finding.why}: change the manifest that it comes from" if finding.action == "rewrite" else finding.why
        yield Finding(finding.line, finding.column, finding.old, finding.new, "report", why)


def _summary(located: Sequence[Located], written: bool) -> str:
    rewrites = sum(one.finding.action == "rewrite" for one in located)
    if not located:
        return "no deprecated label keys"
    files = len({one.file for one in located})
    doing = f"{rewrites} rewritten" if written else f"{rewrites} to rewrite" + (" (with --write)" if rewrites else "")
    return f"{counted(len(located), 'old key')} in {counted(files, 'file')}: {doing}, {len(located) - rewrites} to review by hand"


def sarif(located: Sequence[Located]) -> Mapping[str, Any]:
    """SARIF 2.1.0, one rule per old key; what can be rewritten carries its fix. Columns count Unicode characters."""
    from local.cli.sarif import log

    rules = {one.finding.old: one.finding.new for one in located}
    told = [{"id": old, "shortDescription": {"text": f"{old} is now {new}"}, "helpUri": _INFORMATION} for old, new in sorted(rules.items())]
    return log("hullmark migrate", told, [_result(one) for one in located])


def _result(one: Located) -> dict[str, Any]:
    from local.cli.sarif import location, result

    finding = one.finding
    region = {"startLine": finding.line, "startColumn": finding.column, "endColumn": finding.column + finding.end - finding.start}
    level = "warning" if finding.action == "rewrite" else "note"
    told = result(finding.old, level, f"{finding.old} is now {finding.new}: {finding.why}", one.file, region)
    if finding.action == "rewrite":
        replacement = {"deletedRegion": region, "insertedContent": {"text": finding.replacement}}
        changes = [{"artifactLocation": location(one.file), "replacements": [replacement]}]
        told["fixes"] = [{"description": {"text": f"Write {finding.new}"}, "artifactChanges": changes}]
    return told
