"""Version strings as Gardener reads them: Masterminds/semver v3.5.0's lenient parser, its order and its constraints.

Gardener compares versions in two ways, and the answers differ: by order (`Version.key`), and by "the compare helper" (`compare`),
which cuts pre-releases and metadata off first and lets a short version stand for all its patches (`1.27` for every 1.27.x).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

MAX_VERSION_LENGTH = 256
MAX_CONSTRAINT_LENGTH = 512
MAX_CONSTRAINT_GROUPS = 32
MAX_UINT64 = 2**64 - 1

_EXTRA = r"(?:-([0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?(?:\+([0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?"
_SUFFIX = re.compile(r"[-+~]")
_VERSION = re.compile(rf"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?{_EXTRA}")


class InvalidVersion(ValueError):
    """A text that is no version, or no constraint. The message says why, in the original's words."""


@dataclass(frozen=True, slots=True)
class Version:
    """A parsed version. Compare versions by `key`; two that differ only in metadata or spelling have the same key."""

    major: int
    minor: int
    patch: int
    pre: str
    metadata: str
    key: tuple[object, ...]

    @property
    def core(self) -> tuple[int, int, int]:
        """Major, minor, patch."""
        return (self.major, self.minor, self.patch)

    def __str__(self) -> str:
        """The normalised spelling: three parts, no leading `v`, no leading zeros."""
        return (
            f"{self.major}.{self.minor}.{self.patch}"
            + (f"-{self.pre}" if self.pre else "")
            + (f"+{self.metadata}" if self.metadata else "")
        )


@lru_cache(maxsize=16384)
def parse(text: str) -> Version:
    """Read a version; missing parts are 0. Raises InvalidVersion."""
    if len(text) > MAX_VERSION_LENGTH:
        raise InvalidVersion(f"version string is too long (max {MAX_VERSION_LENGTH} bytes)")
    match = _VERSION.fullmatch(text)
    if match is None:
        raise InvalidVersion("invalid semantic version")
    core = [int(part or 0) for part in match.group(1, 2, 3)]
    for part in core:
        if part > MAX_UINT64:
            raise InvalidVersion(f'error parsing version segment: strconv.ParseUint: parsing "{part}": value out of range')
    pre = match[4] or ""
    for identifier in pre.split("."):
        if len(identifier) > 1 and identifier[0] == "0" and identifier.isdecimal():
            raise InvalidVersion("version segment starts with 0")
    return Version(core[0], core[1], core[2], pre, match[5] or "", (*core, *_pre_key(pre)))


def _pre_key(pre: str) -> tuple[object, ...]:
    """A pre-release is lower than its release; its identifiers compare left to right, numbers below text, fewer below more."""
    if not pre:
        return (1,)
    return (0, tuple((0, int(part), "") if part.isdecimal() and int(part) <= MAX_UINT64 else (1, 0, part) for part in pre.split(".")))


def normalize(text: str) -> str:
    """What the compare helper makes of a version before it looks: no letter `v` anywhere, cut at the first `-`, `+` or `~`."""
    return _SUFFIX.split(text.replace("v", ""), maxsplit=1)[0]


def compare(left: str, operator: str, right: str) -> bool:
    """Gardener's compare helper: does normalised `left` satisfy `operator` normalised `right`? Raises InvalidVersion."""
    constraint = constrain(f"{operator} {normalize(right)}")
    return constraint.accepts(parse(normalize(left)))


# --- constraints ----------------------------------------------------------------------------------------------------------------------

_BLANK = r"[\t\n\f\r ]"
_NUMBER = r"[0-9|xX*]+"
_OPERATOR = r"(?:!=|>=|=>|<=|=<|~>|=|>|<|~|\^|)"
_OPERAND = rf"v?({_NUMBER})(?:\.({_NUMBER}))?(?:\.({_NUMBER}))?{_EXTRA}"
_PLAIN_OPERAND = re.sub(r"\((?!\?)", "(?:", _OPERAND)
_RANGE = re.compile(rf"{_BLANK}*+({_PLAIN_OPERAND}){_BLANK}++-{_BLANK}++({_PLAIN_OPERAND}){_BLANK}*+")
_TERM = re.compile(rf"({_OPERATOR}){_BLANK}*+{_OPERAND}")
_GROUP = re.compile(
    rf"{_BLANK}*+{_OPERATOR}{_BLANK}*+{_PLAIN_OPERAND}"
    rf"(?:(?:{_BLANK}*+,{_BLANK}*+|{_BLANK}++){_OPERATOR}{_BLANK}*+{_PLAIN_OPERAND})*+{_BLANK}*+"
)
_WILD = frozenset(["x", "X", "*", None])


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison of a constraint. `dirty` says which part was missing or a wildcard: `""`, `major`, `minor` or `patch`."""

    operator: str
    version: Version
    dirty: str

    def accepts(self, version: Version) -> bool:
        """Whether the version passes this one comparison; pre-releases are the group's business."""
        return _OPERATORS[self.operator](version, self.version, self.dirty)


@dataclass(frozen=True, slots=True)
class Constraint:
    """Groups joined by `||`, each a list of comparisons that must all hold."""

    groups: tuple[tuple[Term, ...], ...]

    def accepts(self, version: Version) -> bool:
        """Whether the version passes any group. A pre-release fails every group that names no pre-release itself."""
        for group in self.groups:
            if version.pre and not any(term.version.pre for term in group):
                continue
            for term in group:
                if not term.accepts(version):
                    break
            else:
                return True
        return False


@lru_cache(maxsize=4096)
def constrain(text: str) -> Constraint:
    """Read a constraint: `>= 1.27, < 1.30 || 1.31.x`, `1.2 - 1.4`, `~1.2`, `^1`. Raises InvalidVersion."""
    if len(text.encode()) > MAX_CONSTRAINT_LENGTH:
        raise InvalidVersion(f"constraint string is too long (max {MAX_CONSTRAINT_LENGTH} bytes)")
    groups = _RANGE.sub(r">= \1, <= \2 ", text).split("||")
    if len(groups) > MAX_CONSTRAINT_GROUPS:
        raise InvalidVersion(f"too many constraint groups (max {MAX_CONSTRAINT_GROUPS})")
    for group in groups:
        if _GROUP.fullmatch(group) is None:
            raise InvalidVersion(f'improper constraint: "{group}"')
    return Constraint(tuple(tuple(_term(match) for match in _TERM.finditer(group)) for group in groups))


def _term(match: re.Match[str]) -> Term:
    operator, major, minor, patch, pre, metadata = match.groups()
    dirty = "major" if major in _WILD else "minor" if minor in _WILD else "patch" if patch in _WILD else ""
    numbers = {"major": "0.0.0", "minor": f"{major}.0.0", "patch": f"{major}.{minor}.0", "": f"{major}.{minor}.{patch}"}[dirty]
    suffix = (f"-{pre}" if pre else "") + (f"+{metadata}" if metadata and not dirty else "")
    try:
        return Term(operator, parse(numbers + suffix), dirty)
    except InvalidVersion as error:
        raise InvalidVersion("constraint parser error") from error


def _equal(version: Version, wanted: Version, dirty: str) -> bool:
    return _tilde(version, wanted, dirty) if dirty else version.key == wanted.key


def _not_equal(version: Version, wanted: Version, dirty: str) -> bool:
    if dirty and (version.major != wanted.major or (dirty != "minor" and version.minor != wanted.minor)):
        return True
    match dirty:
        case "minor":
            return False
        case "patch":
            return bool(version.pre or wanted.pre) and version.key[3:] != wanted.key[3:]
        case _:
            return version.key != wanted.key


def _greater(version: Version, wanted: Version, dirty: str) -> bool:
    if dirty and version.major != wanted.major:
        return version.major > wanted.major
    match dirty:
        case "minor":
            return False
        case "patch":
            return version.minor > wanted.minor
        case _:
            return version.key > wanted.key


def _less_or_equal(version: Version, wanted: Version, dirty: str) -> bool:
    if not dirty:
        return version.key <= wanted.key
    if version.major != wanted.major:
        return version.major < wanted.major
    return dirty == "minor" or version.minor <= wanted.minor


def _tilde(version: Version, wanted: Version, dirty: str) -> bool:
    if version.key < wanted.key:
        return False
    if wanted.core == (0, 0, 0) and dirty not in ("minor", "patch"):
        return True
    return version.major == wanted.major and (dirty == "minor" or version.minor == wanted.minor)


def _caret(version: Version, wanted: Version, dirty: str) -> bool:
    if version.key < wanted.key:
        return False
    if wanted.major > 0 or dirty == "minor":
        return version.major == wanted.major
    if version.major > 0:
        return False
    if wanted.minor > 0 or dirty == "patch":
        return version.minor == wanted.minor
    return version.minor == 0 and version.patch == wanted.patch


_OPERATORS: dict[str, Callable[[Version, Version, str], bool]] = {
    "": _equal,
    "=": _equal,
    "!=": _not_equal,
    ">": _greater,
    "<": lambda version, wanted, _: version.key < wanted.key,
    ">=": lambda version, wanted, _: version.key >= wanted.key,
    "=>": lambda version, wanted, _: version.key >= wanted.key,
    "<=": _less_or_equal,
    "=<": _less_or_equal,
    "~": _tilde,
    "~>": _tilde,
    "^": _caret,
}
