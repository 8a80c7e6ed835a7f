"""Documents as they are kept: staged by collection, committed as immutable revisions, never changed.

staged/<collection>/<k>.json                what was staged, newest last; a revision names those it holds and the last that it looked at
revisions/<n>/<ulid>/policies.json          policies, clusters, pairs and pods' policies, validated
revisions/<n>/<ulid>/clusters.json          how each of its clusters is reached
revisions/<n>/<ulid>/gardener.json          its Gardener documents, validated
revisions/<n>/<ulid>/nodes/<k>.json         resolved nodes, NODES_PER_SHARD of them, in order of their names
revisions/<n>/revision.json                 the commit: it names the <ulid> whose objects count
tags/<tag>/<n>.json                         `site-action-success`, `site-action-failure`, anything a person sets
staged-cleared/<n>                          what was staged and passed over up to revision n is removed
heads/<n>                                   a hint that revision n is committed: where to begin to look for the newest

Of these only hints go, and what was staged and is in no revision, so that a listing shows all that was there when it began. Numbers have no
gaps: who creates the next one has seen the one before.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from pydantic import Field
from ulid import ULID

from shared.domain.actions import Record
from shared.domain.documents.access import Access, Outdated, kept
from shared.domain.documents.reading import Document, DocumentsRefused, Problem, Source
from shared.domain.labels.impact import RevisionImpact
from shared.domain.names import COMMITTED, REJECTED, SITE_TAGS
from shared.ledger.records import RecordUnreadable, numbered, read_as, read_record, read_there
from shared.ports import ObjectStore, StoreError

if TYPE_CHECKING:
    from shared.domain.documents.design import DesignNode
    from shared.domain.labels.policies import Policies
    from shared.domain.nodes import Taint
    from shared.domain.site import Site

T = TypeVar("T")

ASKED_FIRST = 4
"""Revisions that are asked for a tag one by one before the tag's are listed."""
NODES_PER_SHARD = 500
"""A part of an action spans one or two shards. A node with 60 labels takes about 2 kB, so a shard about 1 MB."""
KEYS_LISTED = 1000
"""Keys of a design that its revision lists, for who asks what it ever declared."""
DESIGN_KEYS_KEPT = 5000
"""Nodes whose keys a process remembers, of each revision: about 1 MB."""
COLLECTION = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
"""What names a collection: one step of a path in the store, and of a URL."""
TAG = COLLECTION
"""What a tag looks like: it is a step of a path too."""
DEFAULT_COLLECTION = "default"
HEADS = "heads/"
CLEARED = "staged-cleared/"
MOST_REJECTED = 20
"""The most revisions that one restore rejects, the newest of those that it replaces: each is a write, and who asks waits."""
HEADS_KEPT = 3
"""Hints that stay, so that one that is lost costs nothing."""


class NothingStaged(Exception):
    """There is nothing to commit."""


class UnknownRevision(Exception):
    """There is no revision of that number."""


class UnknownCollection(Exception):
    """There is no collection of that name, neither committed nor staged."""


class UnknownTag(Exception):
    """The revision does not carry that tag."""


class TagStays(Exception):
    """What Hullmark records with this tag can't be taken back by removing it."""


class EmptyStage(Exception):
    """There is no document in any of the files: to empty a collection is to remove it."""


class Staged(Record):
    """One collection as it was staged: files by name, in order."""

    collection: str
    by: str
    at: datetime
    files: list[tuple[str, str]]
    digest: str
    removed: bool = False
    """Whether the collection is to go."""


class Collection(Record):
    """A collection inside a revision: which staged object it is."""

    staged: str
    digest: str
    files: list[str]


class Committed(Record):
    """`revision.json`."""

    number: int
    objects: str
    by: str
    at: datetime
    digest: str
    collections: dict[str, Collection]
    documents: int
    nodes: int
    bounds: list[str]
    """The first name of each shard of nodes."""
    message: str = ""
    """Why, in the committer's words."""
    source: str = ""
    """Where the documents come from: a git commit, a URL."""
    impact: RevisionImpact | None = None
    """What it would have done to the clusters' nodes when it was committed; None where nobody looked."""
    label_keys: list[str] | None = None
    """Every key that its design gives to some node; None where they are more than KEYS_LISTED, or an earlier release made the revision."""
    design: str = ""
    """A digest of the nodes that it names; empty where an earlier release made the revision."""
    startup_taints: dict[str, int] = Field(default_factory=dict)
    """The taints that count as startup taints, as text, each with the newest revision that named it (`shared.domain.labels.taints`)."""
    seen: dict[str, str] = Field(default_factory=dict)
    """By collection, the last staged object that this revision or one before it took. What was staged later is not committed yet."""

    @property
    def taken(self) -> dict[str, str]:
        """`seen`, also of a revision from before it was written."""
        return {name: kept.staged for name, kept in self.collections.items()} | self.seen


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a commit would make now: it is validated, and nothing of it is written."""

    base: Committed | None
    """The revision that it follows."""
    staged: dict[str, str]
    """By collection, the staged object that it takes from the buffers."""
    collections: dict[str, Collection]
    """All its collections."""
    site: Site

    @property
    def number(self) -> int:
        """The number that the revision would have."""
        return (self.base.number if self.base else 0) + 1

    @property
    def design(self) -> str:
        """A digest of the nodes that the revision would name."""
        digest = hashlib.sha256()
        for _, body in _shards(self.site):
            digest.update(body)
        return digest.hexdigest()


Judge = Callable[[Proposal], RevisionImpact | None]
"""Who says what a proposal would do to the nodes; None: nobody looked."""


class Revision:
    """One committed revision. What is asked of it is read then, and kept: it never changes."""

    def __init__(self, store: ObjectStore, about: Committed) -> None:
        self._store = store
        self.about = about
        self.number = about.number
        self._shards: dict[int, dict[str, DesignNode]] = {}
        self._design_keys: dict[str, frozenset[str]] = {}

    @functools.cached_property
    def policies(self) -> Policies:
        """Everything but the nodes, resolved."""
        from shared.domain.labels.policies import Policies

        return self._object("policies.json", Policies.from_json)

    @functools.cached_property
    def startup_taints(self) -> frozenset[Taint]:
        """Every taint that counts as a startup taint: the policies', and those of revisions before it."""
        if not self.about.startup_taints:
            return frozenset()
        from shared.domain.labels.taints import taint_of

        return frozenset(map(taint_of, self.about.startup_taints))

    @functools.cached_property
    def clusters(self) -> dict[str, Access | Outdated]:
        """How the revision's Cluster documents say that each is reached, by name; a part that needs no more reads no policy."""
        return self._object("clusters.json", lambda body: {name: kept(name, Access, access) for name, access in body.items()})

    @functools.cached_property
    def gardener(self) -> list[Document]:
        """The revision's CloudProfile, NamespacedCloudProfile and Shoot documents."""
        return self._read("gardener.json", _gardener_documents)

    def node(self, name: str) -> DesignNode | None:
        """One node of the design, from its shard."""
        number = self.shard_of(name)
        return self._shard(number).get(name) if number >= 0 else None

    def nodes(self) -> Iterator[DesignNode]:
        """Every node of the design in order of names, one shard in memory at a time."""
        for number in range(len(self.about.bounds)):
            yield from self._read_shard(number).values()

    def shard_of(self, name: str) -> int:
        """The number of the shard that has the node, if the design names it; below 0 where none could."""
        return bisect.bisect_right(self.about.bounds, name) - 1

    def design_keys(self, name: str) -> frozenset[str]:
        """The keys that the design gives to a node; none for one that it does not name. Kept for some thousand nodes, those of a shard at a
        time: ask in order of names.
        """
        if name not in self._design_keys:
            if len(self._design_keys) > DESIGN_KEYS_KEPT:
                self._design_keys.clear()
            number, alike = self.shard_of(name), dict[frozenset[str], frozenset[str]]()
            for node in self._read_shard(number).values() if number >= 0 else ():
                keys = frozenset(node.labels)
                self._design_keys[node.name] = alike.setdefault(keys, keys)
            self._design_keys.setdefault(name, frozenset())
        return self._design_keys[name]

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Those names that the design does not name."""
        return [name for name in names if self.node(name) is None]

    def _shard(self, number: int) -> dict[str, DesignNode]:
        if number not in self._shards:
            self._shards[number] = self._read_shard(number)
        return self._shards[number]

    def _read_shard(self, number: int) -> dict[str, DesignNode]:
        from shared.domain.documents.design import DesignNode

        return self._object(
            f"nodes/{number:05}.json", lambda shard: {name: DesignNode.from_json(name, body) for name, body in shard.items()}
        )

    def _object(self, name: str, read: Callable[[dict[str, Any]], T]) -> T:
        return self._read(name, lambda body: read(json.loads(body)))

    def _read(self, name: str, read: Callable[[bytes], T]) -> T:
        """What `read` makes of the bytes of one of the revision's objects. Raises RecordUnreadable, also where it is missing."""
        key = f"revisions/{self.number:06}/{self.about.objects}/{name}"
        body = self._store.get(key)
        if body is None:
            raise RecordUnreadable(key, f"it is missing, revision {self.number} is not whole")
        return read_as(key, body, read)


class _Kind(msgspec.Struct):
    kind: str


class _GardenerDocument(msgspec.Struct):
    file: str
    line: int
    name: str
    data: msgspec.Raw


class _GardenerDocuments(msgspec.Struct):
    documents: list[_GardenerDocument]


def _gardener_documents(body: bytes) -> list[Document]:
    """Each is read when it is looked at: who moves one cluster of thousands pays for one."""
    return [
        Document(each.file, 0, each.line, msgspec.json.decode(each.data, type=_Kind).kind, each.name, bytes(each.data))
        for each in msgspec.json.decode(body, type=_GardenerDocuments).documents
    ]


class Revisions:
    """Staged and committed documents in one store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._known: dict[int, Revision] = {}
        self.highest = 0
        """The newest number that is known without a look."""

    # staging

    def stage(self, collection: str, sources: Sequence[Source], by: str, now: datetime) -> Staged:
        """Put documents into a collection's buffer in place of what it held. They are judged when they are committed,
        but must be text, each file under a name of its own, and there must be one. Raises DocumentsRefused and EmptyStage.
        """
        from shared.domain.documents.reading import holds_document

        files: list[tuple[str, str]] = []
        problems = _same_names(collection, sources)
        for source in sorted(sources, key=lambda source: source.file):
            try:
                files.append((source.file, source.data.decode("utf-8-sig")))
            except UnicodeDecodeError as error:
                line = source.data.count(b"\n", 0, error.start) + 1
                problems.append(Problem(source.file, line, "", "", "Syntax", f"not UTF-8 text at byte {error.start}: is this a YAML file?"))
        if problems:
            raise DocumentsRefused(problems)
        if not any(holds_document(source) for source in sources):
            which = ", ".join(source.file for source in sources) or "nothing was given"
            cause = f"there is no document to stage ({which}); to take all of {collection} away: `hullmark documents remove {collection}`"
            raise EmptyStage(cause)
        return self._stage(Staged(collection=collection, by=by, at=now, files=files, digest=_digest(files)))

    def remove(self, collection: str, by: str, now: datetime) -> Staged:
        """Stage a collection's removal in place of what its buffer held. Raises UnknownCollection."""
        base = self._base()
        if (base is None or collection not in base.collections) and collection not in self.buffers():
            known = ", ".join(sorted({*(base.collections if base else ()), *self.buffers()})) or "none yet"
            raise UnknownCollection(f"there is no collection {collection}; there are: {known}")
        return self._stage(Staged(collection=collection, by=by, at=now, files=[], digest=_digest([]), removed=True))

    def _stage(self, staged: Staged) -> Staged:
        taken = self._last_taken(staged.collection)
        number = max(numbered([self._newest_staged(staged.collection, taken) or taken]), default=0) + 1
        while not self._store.create(f"staged/{staged.collection}/{number:06}.json", staged.to_bytes()):
            number += 1
        return staged

    def _last_taken(self, collection: str) -> str:
        """The last staged object of a collection that a revision took; empty where that can't be known."""
        try:
            base = self._base()
        except RecordUnreadable:
            return ""
        return base.taken.get(collection, "") if base else ""

    def buffers(self) -> dict[str, str]:
        """Collection → key of what its buffer holds, for the collections that differ from the newest revision."""
        return self._buffers(self._base())

    def _buffers(self, base: Committed | None) -> dict[str, str]:
        taken = base.taken if base else {}
        newest = {name: self._newest_staged(name, taken.get(name, "")) for name in self._store.folders("staged/")}
        held = {name: key for name, key in newest.items() if key}
        committed = base.collections if base else {}
        return {name: key for name, key in held.items() if name in committed or not self.staged(key).removed}

    def staged(self, key: str) -> Staged:
        """What was staged under this key."""
        return read_there(self._store, key, Staged.model_validate_json)

    def _newest_staged(self, collection: str, after: str = "") -> str:
        keys = self._store.keys(f"staged/{collection}/", after=after)
        return keys[-1] if keys else ""

    def _base(self) -> Committed | None:
        newest = self.newest()
        return self.get(newest).about if newest else None

    def forget_staged(self, before: datetime, most: int) -> None:
        """Remove what was staged, replaced in its buffer, and so taken by no revision: up to the revisions from before this moment, `most`
        of them at a time. What a revision names stays, and what is staged after it.
        """
        marks = self._store.keys(CLEARED)
        done = cleared = max(numbered(marks), default=0)
        previous = self._about(done)
        for number in range(done + 1, min(done + most, self.newest()) + 1):
            about = self._about(number)
            if about and about.at >= before:
                break
            if about and about.seen:  # what an earlier release staged and passed over stays
                before_it = dict.fromkeys(about.seen, "") if number == 1 else previous.seen if previous else {}
                self._remove_passed_over(before_it, about.seen)
            previous, cleared = about, number
        if cleared > done:
            self._store.create(f"{CLEARED}{cleared:06}", b"")
            for key in marks:
                self._store.delete(key)

    def _about(self, number: int) -> Committed | None:
        try:
            return read_record(self._store, revision_key(number), Committed)
        except RecordUnreadable:
            return None

    def _remove_passed_over(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        for collection in before.keys() & after.keys():
            first, last = (min(numbered([taken]), default=0) for taken in (before[collection], after[collection]))
            for number in range(first + 1, last):
                self._store.delete(f"staged/{collection}/{number:06}.json")

    # committing

    def propose(self, now: datetime) -> Proposal:
        """What a commit would make now: the staged collections in place of the committed ones, the others as they are, all validated.

        Raises NothingStaged and DocumentsRefused. A commit is this and then the writing, so that a dry run can't say anything else.
        """
        base = self._base()
        staged = self._buffers(base)
        if not staged:
            newest = (
                f"revision {base.number}, which {base.by} committed at {base.at:%Y-%m-%d %H:%M:%S}, holds all that was staged; "
                if base
                else ""
            )
            raise NothingStaged(f"nothing is staged: {newest}`hullmark documents stage -f …` first")
        keys = {name: kept.staged for name, kept in base.collections.items()} if base else {}
        return self._proposal(base, staged, keys | staged, previous=base, now=now)

    def commit(
        self, by: str, now: datetime, *, message: str = "", source: str = "", judge: Judge = lambda _: None
    ) -> tuple[Revision, list[Problem]]:
        """Make the next revision of what is staged and committed; it, and its warnings. `judge` says what it does to the nodes.

        Raises NothingStaged and DocumentsRefused. Of two committers at once each gets a number of its own: the second one
        begins again on top of the first, and gets the first one's revision where that took all that was staged.
        """
        lost: Proposal | None = None
        while True:
            try:
                proposal = self.propose(now)
            except NothingStaged:
                if lost is None:
                    raise
                return self._that_took(lost), lost.site.warnings
            if self._made(proposal, by, now, message, source, judge(proposal)):
                return self.get(proposal.number), proposal.site.warnings
            lost = proposal

    def restore(
        self, number: int, by: str, now: datetime, *, message: str = "", source: str = "", judge: Judge = lambda _: None
    ) -> tuple[Revision, list[int]]:
        """Commit the collections of a revision anew, as the next one; what is staged stays staged. The new revision, and the numbers of
        those that it takes back: they are rejected, so that no action that was accepted for one, or asked for anew, releases it.

        They are judged as unchanged: what was accepted then is acceptable now. Raises UnknownRevision.
        """
        wanted = self.get(number).about
        keys = {name: kept.staged for name, kept in wanted.collections.items()}
        while True:
            proposal = self._proposal(self._base(), {}, keys, previous=wanted, now=now)
            if self._made(proposal, by, now, message or f"restores revision {number}", source, judge(proposal)):
                return self.get(proposal.number), self._reject_between(wanted, proposal.number, by, now)

    def _reject_between(self, wanted: Committed, restored: int, by: str, now: datetime) -> list[int]:
        """Reject what was committed after a revision and before the one that restores it, except where it held the same documents."""
        replaced = [
            about.number
            for about, _ in self.listed(MOST_REJECTED, before=restored)
            if about.number > wanted.number and about.digest != wanted.digest
        ]
        for number in replaced:
            self._set_tag(number, REJECTED, by, now)
        return replaced

    def _proposal(
        self, base: Committed | None, staged: dict[str, str], keys: Mapping[str, str], *, previous: Committed | None, now: datetime
    ) -> Proposal:
        from shared.domain.site import load

        everything = {name: self.staged(key) for name, key in sorted(keys.items())}
        staying = {name: each for name, each in everything.items() if not each.removed}
        sources = _told_apart(staying)
        collections = {
            name: Collection(staged=keys[name], digest=each.digest, files=[file for file, _ in each.files])
            for name, each in staying.items()
        }
        del everything, staying  # their text is in the sources
        before = (source for earlier in (previous,) if earlier for source in self.sources(earlier.number))  # read where a check asks
        site = load(sources, previous=before, now=now)
        return Proposal(base, staged, collections, site)

    def _made(self, proposal: Proposal, by: str, now: datetime, message: str, source: str, impact: RevisionImpact | None = None) -> bool:
        """Write the proposal as a revision. False where somebody else's has its number."""
        taken = proposal.base.taken if proposal.base else {}
        why = {"message": message, "source": source, "impact": impact, "seen": taken | proposal.staged}
        about = self._write(proposal, by, now).model_copy(update=why)
        made = self._store.create(revision_key(proposal.number), about.to_bytes())
        if made:
            self.highest = max(self.highest, proposal.number)
            self._leave_hint(proposal.number)
        return made

    def _leave_hint(self, number: int) -> None:
        """The revision is committed, whether this succeeds or not: without a hint the newest one is found by a longer listing."""
        with contextlib.suppress(StoreError):
            self._store.create(f"{HEADS}{number:06}", b"")
            self._store.delete(f"{HEADS}{number - HEADS_KEPT:06}")

    def _that_took(self, lost: Proposal) -> Revision:
        """The revision of somebody else that committed all that this proposal took from the buffers."""
        for number in range(lost.number, self.newest()):
            taken = self.get(number).about.taken
            if all(taken.get(name, "") >= key for name, key in lost.staged.items()):
                return self.get(number)
        return self.get(self.newest())

    def _write(self, proposal: Proposal, by: str, now: datetime) -> Committed:
        number, collections, site = proposal.number, proposal.collections, proposal.site
        objects = str(ULID())
        folder = f"revisions/{number:06}/{objects}"
        bounds: list[str] = []
        design = hashlib.sha256()
        for index, (first, body) in enumerate(_shards(site)):
            bounds.append(first)
            design.update(body)
            self._store.create(f"{folder}/nodes/{index:05}.json", body)
        self._store.create(f"{folder}/policies.json", _json(site.policies.to_json()))
        gardener = [document for documents in site.gardener.values() for document in documents]
        self._store.create(
            f"{folder}/gardener.json",
            _json({"documents": [{"file": d.file, "line": d.line, "name": d.name, "data": d.data} for d in gardener]}),
        )
        reached = {name: access.to_json() for name, access in site.policies.reached().items() if isinstance(access, Access)}
        self._store.create(f"{folder}/clusters.json", _json(reached))
        return Committed(
            number=number,
            objects=objects,
            by=by,
            at=now,
            digest=_digest([(name, collection.digest) for name, collection in collections.items()]),
            collections=collections,
            label_keys=_keys_of(site.nodes.values()),
            documents=site.document_count,
            nodes=len(site.nodes),
            bounds=bounds,
            design=design.hexdigest(),
            startup_taints=_startup_taints(proposal.base, site, number),
        )

    # reading

    def newest(self) -> int:
        """The newest committed number; 0 before the first. Where one is known, only those after it are looked for, one by one."""
        number = self.highest or self._hinted() or self._newest_listed()
        while self._store.get(revision_key(number + 1)) is not None:
            number += 1
        self.highest = number
        return number

    def _hinted(self) -> int:
        """A number that is committed, at or before the newest; 0 where no hint tells, or the last one is wrong."""
        number = max(numbered(self._store.keys(HEADS)), default=0)
        return number if number and self._store.get(revision_key(number)) is not None else 0

    def _newest_listed(self) -> int:
        for name in reversed(self._store.folders("revisions/")):
            if self._store.get(f"revisions/{name}/revision.json") is not None:
                return int(name)
        return 0

    def numbers(self) -> list[int]:
        """Every committed number, ascending."""
        return list(range(1, self.newest() + 1))

    def listed(self, limit: int = 0, before: int = 0) -> list[tuple[Committed, str]]:
        """Every commit, ascending, with why it can't be read: an empty text, or all else is empty. `limit`: the newest so many;
        `before`: only those with lower numbers.
        """
        last = min(self.newest(), before - 1) if before else self.newest()
        return [self._listed(number) for number in range(max(1, last - limit + 1) if limit else 1, last + 1)]

    def _listed(self, number: int) -> tuple[Committed, str]:
        try:
            return self.get(number).about, ""
        except (RecordUnreadable, UnknownRevision) as torn:
            return _unknown_commit(number), str(torn)

    def get(self, number: int) -> Revision:
        """A revision. Raises UnknownRevision."""
        if number not in self._known:
            key = revision_key(number)
            about = read_record(self._store, key, Committed)
            if about is None:
                raise UnknownRevision(f"no revision {number}; the newest is {self.newest()}")
            self._known[number] = Revision(self._store, about)
        return self._known[number]

    def sources(self, number: int) -> list[Source]:
        """The documents of a revision, as they were staged."""
        return [source for files in self.files(number).values() for source in files]

    def files(self, number: int, collection: str = "") -> dict[str, list[Source]]:
        """The files of a revision by collection, as they were staged; with `collection`, those of that one.

        Raises UnknownRevision and UnknownCollection.
        """
        kept = self.get(number).about.collections
        if collection and collection not in kept:
            known = ", ".join(sorted(kept)) or "none"
            raise UnknownCollection(f"revision {number} has no collection {collection}; it has: {known}")
        wanted = {collection: kept[collection]} if collection else kept
        return {name: sources_of([self.staged(each.staged)]) for name, each in wanted.items()}

    # tags

    def tag(self, number: int, tag: str, by: str, now: datetime) -> None:
        """Set a tag; setting it again changes nothing. Raises UnknownRevision."""
        self.get(number)
        self._set_tag(number, tag, by, now)

    def _set_tag(self, number: int, tag: str, by: str, now: datetime) -> None:
        self._store.create(_tag_key(tag, number), _json({"by": by, "at": now.isoformat()}))

    def untag(self, number: int, tag: str) -> None:
        """Remove a tag that a person may set. Those of site actions stay: they say what happened, and which revision a cluster from before
        releases holds. Raises UnknownRevision, UnknownTag and TagStays.
        """
        if tag in (COMMITTED, *SITE_TAGS):
            raise TagStays(f"{tag} says what happened to revision {number} and can't be removed; tags that people set can")
        tags = self.tags(self.get(number).number)
        if tag not in tags:
            raise UnknownTag(f"revision {number} has no tag {tag}; it has: {', '.join(tags)}")
        self._store.delete(_tag_key(tag, number))

    def rejection(self, number: int) -> str:
        """Who took the revision back and when, and how to lift that; empty for one that nobody took back."""
        body = self._store.get(_tag_key(REJECTED, number))
        if body is None:
            return ""
        try:
            said = read_as(_tag_key(REJECTED, number), body, json.loads)
            who = f"by {said['by']} at {said['at'][:19]}"
        except (RecordUnreadable, KeyError, TypeError):
            who = "by somebody (the tag can't be read)"
        return f"revision {number} was rejected {who}: `hullmark documents untag {number} {REJECTED}` lifts that"

    def tagged(self, tag: str) -> list[int]:
        """The revisions that carry a tag."""
        return sorted(numbered(self._store.keys(f"tags/{tag}/")))

    def tags(self, number: int) -> list[str]:
        """The tags of a revision; `committed` is on every one."""
        return self.tags_of([number])[number]

    def tags_of(self, numbers: Sequence[int]) -> dict[int, list[str]]:
        """The tags of some revisions that follow one another: one listing for each tag there is."""
        found = {number: [COMMITTED] for number in numbers}
        for tag in self._store.folders("tags/") if numbers else ():
            for number in numbered(self._store.keys(f"tags/{tag}/", after=_tag_key(tag, min(numbers) - 1), limit=len(numbers))):
                found.get(number, []).append(tag)
        return found

    def any_tagged(self, tags: Sequence[str]) -> bool:
        """Whether any revision carries one of these tags. The newest are asked first: mostly they do, however many there are."""
        newest = range(self.newest(), max(0, self.newest() - ASKED_FIRST), -1)
        near = (self._store.get(_tag_key(tag, number)) is not None for number in newest for tag in tags)
        return any(near) or any(numbered(self._store.keys(f"tags/{tag}/", limit=ASKED_FIRST)) for tag in tags)


def _same_names(collection: str, sources: Iterable[Source]) -> list[Problem]:
    """A file's name is how a revision is compared with the next one: two files can't share it."""
    said = (
        f"two files have this name in collection {collection}: give the folder above both, or a collection to each "
        "(`-c`; a file counts by its path below the folder that was given)"
    )
    names = Counter(source.file for source in sources)
    return [Problem(name, 0, "", "", "Duplicate", said) for name, count in sorted(names.items()) if count > 1]


def _shards(site: Site) -> Iterator[tuple[str, bytes]]:
    """The nodes of a site in pieces, in order of their names: the first name of each, and its bytes."""
    names = sorted(site.nodes)
    for start in range(0, len(names), NODES_PER_SHARD):
        yield names[start], _json({name: site.nodes[name].to_json() for name in names[start : start + NODES_PER_SHARD]})


def _startup_taints(base: Committed | None, site: Site, number: int) -> dict[str, int]:
    """What counts as a startup taint from this revision on."""
    named, before = site.policies.startup_taints, base.startup_taints if base else {}
    if not named and not before:
        return {}
    from shared.domain.labels.taints import remembered

    return remembered(before, named, number)


def _keys_of(nodes: Iterable[DesignNode]) -> list[str] | None:
    keys = set[str]().union(*{id(node.labels): node.labels for node in nodes}.values())  # nodes that are labelled alike share one mapping
    return sorted(keys) if len(keys) <= KEYS_LISTED else None


def _unknown_commit(number: int) -> Committed:
    """Stands in for a commit that can't be read, in lists."""
    at = datetime.fromtimestamp(0, UTC)
    return Committed(number=number, objects="", by="unknown", at=at, digest="", collections={}, documents=0, nodes=0, bounds=[])


def _tag_key(tag: str, number: int) -> str:
    return f"tags/{tag}/{number:06}.json"


def revision_key(number: int) -> str:
    """The object that makes a revision."""
    return f"revisions/{number:06}/revision.json"


def sources_of(collections: Iterable[Staged]) -> list[Source]:
    """The files of several collections, in order."""
    return [Source(file, text.encode()) for staged in collections for file, text in staged.files]


def _told_apart(collections: Mapping[str, Staged]) -> list[Source]:
    """The files of a site, for what is said of them: a name that several collections have comes after its collection's."""
    names = Counter(file for staged in collections.values() for file, _ in staged.files)
    return [
        Source(file if names[file] == 1 else f"{name}/{file}", text.encode())
        for name, staged in collections.items()
        for file, text in staged.files
    ]


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _digest(value: Any) -> str:
    return hashlib.sha256(_json(value)).hexdigest()
