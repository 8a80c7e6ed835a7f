"""Plain YAML, read by a native parser: what most documents of a large site are, in a third of the time.

Two readers of YAML agree on some of it only. So a document goes this way where every line has one of the shapes below, on which they do:
`key: value`, `- value`, one-line lists and mappings, scalars that every version of YAML reads alike. Whatever else there is (blocks of
text, anchors, tags, numbers in odd spellings, text over several lines, keys that are no words), and whatever the native parser refuses, is
left to the reader in `parsing`, which also says what is wrong and where.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import yaml_rs

_PRINTABLE = r"[ -~\u00a1-\u2027\u2030-\ud7ff]"
_OTHER_SPELLINGS = "True|TRUE|False|FALSE|Null|NULL"
"""Text here, a constant elsewhere."""
_CONSTANTS = f"true|false|null|{_OTHER_SPELLINGS}"
_IN_FLOW, _IN_BLOCK = r"[\w./@+=$%^();-]", r"[\w./@+=$%^();,'?!&*~<>|{}[\]\\\"-]"
"""What a word of unquoted text may hold behind its first character."""
_INTEGER = r"-?(?:0|[1-9][0-9]{0,17})"
_QUOTED = rf"""\"(?:(?![\"\\]){_PRINTABLE})*+\"|'(?:(?!'){_PRINTABLE})*+'"""


def _scalar(inside: str) -> str:
    """A scalar on one line. What begins with a digit is text where no reader takes it for a number: `30g`, `10.0.0.1`, `52:54:00:a3:31`."""
    to_nobody_a_number = r"(?<=[a-df-zA-DF-Z,%/])|(?<=[0-9]:[0-9a-f])|(?<=\.[0-9]\.)|(?<=\.[0-9]{2}\.)|(?<=\.[0-9]{3}\.)"
    no_number = rf"(?!0[xobXOB])(?=(?:{inside}|:)*(?:{to_nobody_a_number}))[0-9]"
    text = rf"(?!(?:{_OTHER_SPELLINGS})(?!{inside}|:))(?:[A-Za-z_/]|{no_number}){inside}*+(?:[ :]{inside}++)*+"
    return rf"(?:{text}|{_INTEGER}(?!{inside}|:)|{_QUOTED}|~)"


_SCALAR = _scalar(_IN_FLOW)
_KEY = rf"(?!(?:{_CONSTANTS}):)[A-Za-z_][\w./-]{{0,250}}+"
_PAIR = rf"{_KEY}: ++{_SCALAR} *+"
_FLOW = rf"\{{ *+{_PAIR}(?:, ++{_PAIR})*+\}}|\[ *+{_SCALAR} *+(?:, ++{_SCALAR} *+)*+\]|\[\]|\{{\}}"
_VALUE = rf"(?:{_scalar(_IN_BLOCK)}|{_FLOW})"
_MEMBER = rf"{_KEY}:(?: ++{_VALUE})?+"
_CONTENT = rf"(?:- {{1,3}}){{1,4}}+(?:{_MEMBER}|{_VALUE})|{_MEMBER}"
_LINE = rf" {{0,40}}+(?:{_CONTENT})?+ *+(?:(?<![^ \n])#{_PRINTABLE}*+)?+\n"
"""Indented by so little that no document of such lines nests deeper than is allowed."""
_DOCUMENT = re.compile(f"(?:{_LINE})*+", re.ASCII)
_MARK = re.compile(r"--- *\n")
_SOMETHING = re.compile(r"^ *[^ #\n]", re.MULTILINE)


class NotPlain(Exception):
    """The document has something that is left to the other reader."""


Documents = Iterable[tuple[int, Any]]
"""The first line, counted from 1, and the value of each."""


def _nothing(part: str) -> Documents:
    raise NotPlain


def documents(text: str, otherwise: Callable[[str], Documents] = _nothing) -> Iterator[tuple[int, Any]]:
    """The first line and the value of each document of a file, as `parsing` would read them. `otherwise` reads a part that is not plain, or
    raises NotPlain.
    """
    if (body := text.rstrip(" \n")).endswith("\n...") and _SOMETHING.search(body.rpartition("\n---")[2][:-3]):
        text = body[:-3]
    line, start = 1, 0
    for end, following in _parts(text):
        content = _SOMETHING.search(text, start, end)
        if content is not None:
            if _DOCUMENT.fullmatch(text, start, end):
                yield line + text.count("\n", start, content.start()), _value(text[start:end])
            else:
                for within, value in otherwise(text[start:end]):
                    yield line + within - 1, value
        elif not _DOCUMENT.fullmatch(text, start, end):
            raise NotPlain
        elif start:  # a mark with nothing behind it is an empty document; comments before the first mark are none
            yield line, None
        line += text.count("\n", start, following)
        start = following


def _parts(text: str) -> Iterator[tuple[int, int]]:
    """Where each document ends, and where the next one begins, behind its mark."""
    at = 0 if text.startswith("---") else text.find("\n---") + 1 or -1
    while at >= 0:
        if mark := _MARK.match(text, at):
            yield at, mark.end()
        at = text.find("\n---", at) + 1 or -1
    yield len(text), len(text)


def _value(document: str) -> Any:
    try:
        return yaml_rs.loads(document, parse_datetime=False)
    except yaml_rs.YAMLDecodeError as error:
        raise NotPlain from error
