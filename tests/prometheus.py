"""A strict reader of Prometheus' text format: what it accepts, Prometheus accepts, and it forgives nothing that the format forbids."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"(,(?=.)|$)')
_SAMPLE = re.compile(rf"({_NAME})(?:\{{((?:[^\"}}]|\"(?:[^\"\\]|\\.)*\")*)\}})? (\S+)")
_HEAD = re.compile(rf"# (HELP|TYPE) ({_NAME}) (.*)")
SUFFIXES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}

Series = tuple[str, tuple[tuple[str, str], ...]]


@dataclass
class Metric:
    """One family as it was read. `samples`: by suffix and labels."""

    about: str
    type: str = ""
    samples: dict[Series, float] = field(default_factory=dict)


def read(text: str) -> dict[str, Metric]:
    """Every family. Fails on whatever the format does not allow."""
    assert text.endswith("\n"), "the last line must end"
    text.encode()
    found: dict[str, Metric] = {}
    name = ""
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("#"):
            head = _HEAD.fullmatch(line)
            assert head, f"neither HELP nor TYPE: {line!r}"
            if head[1] == "HELP":
                name = head[2]
                assert name not in found, f"{name} is there twice"
                found[name] = Metric(head[3])
            else:
                assert head[2] == name, f"TYPE of {head[2]} under HELP of {name}"
                assert not found[name].type, f"{name} has two types"
                assert head[3] in SUFFIXES, line
                found[name].type = head[3]
            continue
        sample = _SAMPLE.fullmatch(line)
        assert sample, f"no sample: {line!r}"
        assert found[name].type, f"a sample before the TYPE of {name}"
        suffix = sample[1].removeprefix(name)
        assert sample[1].startswith(name), f"{sample[1]} under the head of {name}"
        assert suffix in SUFFIXES[found[name].type], f"{sample[1]} under the head of {name}"
        series = suffix, tuple(_labels(sample[2] or ""))
        assert len(dict(series[1])) == len(series[1]), f"a label twice: {line!r}"
        assert series not in found[name].samples, f"{line!r} is there twice"
        found[name].samples[series] = float(sample[3])
    return found


def _labels(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        label = _LABEL.match(text, at)
        assert label, f"no label at {text[at:]!r}"
        yield label[1], re.sub(r"\\(.)", lambda escape: {"n": "\n"}.get(escape[1], escape[1]), label[2])
        at = label.end()
