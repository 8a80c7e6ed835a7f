"""What can go wrong in a story, and when: every kind of trouble, at every point that it can come at. Each schedule has a name of its own.

`strict`: whatever went wrong is over by the end of the story, which must end as it does without faults.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from local.cloud.embedded import Waiting
from shared.messages import DeadlineCheck
from tests.faults.harness import LISTINGS, Call, Fault, Finding, Interference, Site, applies, at, failure, inflict
from tests.faults.stories import Story


@dataclass(frozen=True)
class Schedule:
    """One way in which a story may go."""

    name: str
    how: Mapping[str, Any]
    """What its site is made with."""
    steps: tuple[str, ...]
    """The functions that are met by it."""
    strict: bool = True


def ran(story: Story, schedule: Schedule) -> Finding:
    """Run a story by a schedule."""
    found = Finding()
    site = story.site(**schedule.how)
    story.run(site)
    check = story.right if schedule.strict else story.safe
    check(site, found)
    return found


def single(story: Story) -> Iterator[Schedule]:
    """Each outside call fails, or is the last of its process, before or after it took effect."""
    for call, fault in itertools.product(calls_of(story), Fault):
        if applies(fault, call):
            yield Schedule(f"{fault.name} at {said(call)}", {"interfere": here(story, call, fault)}, (call.step,))


def double(story: Story) -> Iterator[Schedule]:
    """One fault, and another one soon after it, when the first is being made good."""
    if not story.repeats:
        return
    pairs = [(Fault.dies_after, Fault.dies_before), (Fault.fails_after, Fault.dies_after), (Fault.dies_before, Fault.fails_before)]
    for call, (first, second) in itertools.product(calls_of(story), pairs):
        if applies(first, call):
            for later in (1, 2, 3, 5, 8, 13):
                name = f"{first.name} at {said(call)}, then {second.name} {later} calls later"
                yield Schedule(name, {"interfere": both(call.number, first, call.number + later, second)}, (call.step,))


def torn_reads(story: Story) -> Iterator[Schedule]:
    """Each object that is read comes torn, once."""
    held = answered(story)
    for call in calls_of(story):
        if call.number in held:
            for damage, tear in DAMAGES.items():
                yield Schedule(f"{damage} object at {said(call)}", {"interfere": reads(story, call, tear)}, (call.step,), strict=False)


def torn_writes(story: Story) -> Iterator[Schedule]:
    """Each object that is created is left torn by a process that dies over it, as a machine leaves it that loses its power."""
    for call in calls_of(story):
        if call.method == "create":
            for damage, tear in DAMAGES.items():
                yield Schedule(f"{damage} object left by {said(call)}", {"interfere": leaves(call, tear)}, (call.step,), strict=False)


def late_listings(story: Story) -> Iterator[Schedule]:
    """A listing does not show the newest objects yet: this one alone, or all of the same delivery."""
    for call in calls_of(story, cold=True):
        if call.method in LISTINGS and story.repeats:
            for newest in (1, 2, 99):
                hidden = {"interfere": hides(call, newest), "cold": True}
                yield Schedule(f"newest {newest} hidden at {said(call)}", hidden, (call.step,), strict=False)
                whole = {"interfere": hides(call, newest, whole=True), "cold": True}
                yield Schedule(f"newest {newest} hidden from {said(call)} on", whole, (call.step,), strict=False)


def clocks(story: Story) -> Iterator[Schedule]:
    """Clocks are minutes apart: of one delivery, of all of one function, of a process that dies and the next one."""
    calls = calls_of(story, cold=True)
    deliveries = dict.fromkeys((call.delivery, call.step) for call in calls)
    for minutes in (-10, -3, 3, 10):
        for delivery, step in deliveries:
            how = {"skew": skewed(minutes, delivery=delivery), "cold": True}
            yield Schedule(f"delivery {delivery} of {step} {minutes:+} min", how, (step,), strict=False)
        for step in dict.fromkeys(step for _, step in deliveries):
            yield Schedule(f"every {step} {minutes:+} min", {"skew": skewed(minutes, step=step), "cold": True}, (step,), strict=False)
    for call, minutes in itertools.product(calls if story.repeats else (), (-10, 10)):
        how = {"skew": alternating(minutes), "cold": True, "interfere": at(call.number, Fault.dies_before)}
        yield Schedule(f"clocks {minutes:+} min apart, dies_before {said(call)}", how, (call.step,), strict=False)


def twins(story: Story) -> Iterator[Schedule]:
    """At each call of a delivery its twin runs to each of its own: there it dies, or stands until the first has ended."""
    if not story.repeats:
        return
    calls = calls_of(story)
    for call in calls:
        if call.step.startswith("api") and story.twin is Site.again:
            continue  # what a client sends twice is two requests
        yield Schedule(f"twin runs through before {said(call)}", {"interfere": beside(call, story, 0, None)}, (call.step,))
        own = [each for each in calls if story.twin is not Site.again or each.delivery == call.delivery]
        for number, each in enumerate(own, 1):
            name = f"before {said(call)} its twin comes to its call {number}"
            yield Schedule(f"{name} and dies", {"interfere": beside(call, story, number, Fault.dies_before)}, (call.step,))
            if not call.computing and not each.computing:
                yield Schedule(f"{name} and stands", {"interfere": stands(call, story, number)}, (call.step,))


def late_messages(story: Story) -> Iterator[Schedule]:
    """A message comes an hour late, with the clock's check of deadlines before or after it; or two do; or all but the first."""
    sent, steps = published(story)
    for number in range(1, sent + 1):
        for hours, swept in itertools.product((0.2, 0.9, 1.1), (False, True)):
            how = {"late": delays({number: hours * 3600}), "interfere": check_deadlines(3000, 3700) if swept else None}
            yield Schedule(f"message {number} {hours} h late{', swept' * swept}", how, steps, strict=False)
    for first, second in itertools.combinations(range(1, sent + 1), 2):
        how = {"late": delays({first: 3700, second: 3500}), "interfere": check_deadlines(3600)}
        yield Schedule(f"messages {first} and {second} late, in reverse", how, steps, strict=False)


def disorder(story: Story) -> Iterator[Schedule]:
    """Messages in another order, some of them twice."""
    sent, steps = published(story)
    if sent < 2:
        return
    yield Schedule("the newest first", {"pick": lambda waiting: len(waiting) - 1}, steps)
    for seed in range(60):
        how = {"pick": Shuffled(seed), "copies": Copies(seed) if seed % 2 else lambda: 0, "cold": seed % 3 == 0}
        yield Schedule(f"order {seed}", how, steps)


def outages(story: Story) -> Iterator[Schedule]:
    """A port is down for ten minutes, from each of its calls on."""
    for call in calls_of(story):
        yield Schedule(f"{call.port} down from {said(call)}", {"interfere": down(story, call)}, (call.step,), strict=False)


KINDS: dict[str, Callable[[Story], Iterator[Schedule]]] = {
    "single faults": single,
    "double faults": double,
    "torn reads": torn_reads,
    "torn writes": torn_writes,
    "late listings": late_listings,
    "clocks apart": clocks,
    "twins": twins,
    "late messages": late_messages,
    "disorder": disorder,
    "outages": outages,
}


# --- the calls of a story without faults

_CALLS: dict[tuple[str, bool], Site] = {}


def _undisturbed(story: Story, *, cold: bool = False) -> Site:
    if (story.name, cold) not in _CALLS:
        _CALLS[story.name, cold] = story.undisturbed(cold=cold)
    return _CALLS[story.name, cold]


def calls_of(story: Story, *, cold: bool = False) -> list[Call]:
    """Every outside call of the story."""
    return _undisturbed(story, cold=cold).calls


def published(story: Story) -> tuple[int, tuple[str, ...]]:
    """How many messages are delivered, and to which functions."""
    site = _undisturbed(story)
    return site._sent, tuple(sorted({call.step for call in site.calls}))


def answered(story: Story) -> set[int]:
    """The numbers of the calls that were answered with an object."""
    found: set[int] = set()

    def note(site: Site, call: Call, do: Callable[[], Any]) -> Any:
        answer = do()
        if isinstance(answer, bytes):
            found.add(call.number)
        return answer

    story.undisturbed(interfere=note)
    return found


def said(call: Call) -> str:
    """A call as it is named; ids that differ from run to run are left out."""
    argument = "…".join(part for part in call.argument.split("/") if len(part) < 26 or part.startswith("01KAJ"))
    return f"call {call.number}: {call.step} {call.port} {call.method} {argument}".rstrip()


# --- what meets the calls


def here(story: Story, wanted: Call, fault: Fault) -> Interference:
    """One fault at one call. Where the order of calls may differ, the call is known by what it asks."""
    if story.repeats:
        return at(wanted.number, fault)
    return once(wanted, lambda site, call, do: inflict(fault, site, call, do))


def once(wanted: Call, act: Interference) -> Interference:
    """Act at the first call that asks the same."""
    met: list[int] = []

    def interfere(site: Site, call: Call, do: Callable[[], Any]) -> Any:
        if (call.method, call.argument) == (wanted.method, wanted.argument) and not met:
            met.append(call.number)
            return act(site, call, do)
        return do()

    return interfere


def both(first: int, fault: Fault, second: int, then: Fault) -> Interference:
    """Two faults, each at its call."""
    faults = {first: fault, second: then}

    def interfere(site: Site, call: Call, do: Callable[[], Any]) -> Any:
        fault = faults.get(call.number)
        return inflict(fault, site, call, do) if fault and applies(fault, call) else do()

    return interfere


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda body: body[: len(body) // 2],
    "empty": lambda body: b"",
    "garbage": lambda body: b"\x00\xff\x13 not ours",
}


def reads(story: Story, wanted: Call, tear: Callable[[bytes], bytes]) -> Interference:
    """One read that answers with what is left of the object."""

    def torn(site: Site, call: Call, do: Callable[[], Any]) -> Any:
        body = do()
        return tear(body) if isinstance(body, bytes) else body

    if not story.repeats:
        return once(wanted, torn)
    return lambda site, call, do: torn(site, call, do) if call.number == wanted.number else do()


def leaves(wanted: Call, tear: Callable[[bytes], bytes]) -> Interference:
    """One object that is left torn by a process that dies over it."""

    def interfere(site: Site, call: Call, do: Callable[[], Any]) -> Any:
        if call.number != wanted.number:
            return do()
        do()
        body = site.truth.get(call.argument) or b""
        site.truth.delete(call.argument)
        site.truth.create(call.argument, tear(body))
        return site.die()

    return interfere


def hides(wanted: Call, newest: int, *, whole: bool = False) -> Interference:
    """A listing that does not show so many of the newest objects below its folder."""

    def interfere(site: Site, call: Call, do: Callable[[], Any]) -> Any:
        shown = do()
        meant = call.delivery == wanted.delivery and call.number >= wanted.number if whole else call.number == wanted.number
        if call.method not in LISTINGS or not meant:
            return shown
        below = [key for _, key in site.written if key.startswith(call.argument)]
        hidden = below[-newest:]
        if call.method == "keys":
            return [key for key in shown if key not in hidden]
        kept = {key.removeprefix(call.argument).split("/")[0] for key in below[:-newest]}
        gone = {key.removeprefix(call.argument).split("/")[0] for key in hidden} - kept
        return [name for name in shown if name not in gone or _older(site, call.argument + name + "/")]

    return interfere


def _older(site: Site, folder: str) -> bool:
    """Whether the folder holds objects from before the story."""
    written = {key for _, key in site.written}
    return any(key not in written for key in site.truth.keys(folder))


def skewed(minutes: float, *, step: str = "", delivery: int = 0) -> Callable[[str, int], float]:
    """The clock of one function, or of one delivery, is wrong."""
    return lambda at_work, number: minutes * 60 if at_work == step or number == delivery else 0.0


def alternating(minutes: float) -> Callable[[str, int], float]:
    """The clock of every other process is wrong."""
    return lambda at_work, number: minutes * 60 if number % 2 else 0.0


def beside(wanted: Call, story: Story, number: int, fault: Fault | None) -> Interference:
    """Before a call somebody else acts, to the end or until the call at which that process dies."""

    def interfere(site: Site, call: Call, do: Callable[[], Any]) -> Any:
        if call.number == wanted.number:
            site.beside(lambda: story.twin(site), at(number, fault) if fault else None)
        return do()

    return interfere


def stands(wanted: Call, story: Story, number: int) -> Interference:
    """Before a call somebody else acts, and stands before a call of his own until this delivery has ended."""

    def interfere(site: Site, call: Call, do: Callable[[], Any]) -> Any:
        if call.number == wanted.number:
            site.stands(story.twin, number)
        return do()

    return interfere


def delays(seconds: Mapping[int, float]) -> Callable[[int], float]:
    """By how much each message is late."""
    return lambda number: seconds.get(number, 0.0)


def check_deadlines(*moments: float) -> Interference:
    """At the story's first call the clock's checks are sent, to come at these moments."""

    def interfere(site: Site, call: Call, do: Callable[[], Any]) -> Any:
        if call.number == 1:
            before, site._late = site._late, lambda number: 0.0
            for moment in moments:
                site._late = lambda number, moment=moment: moment  # type: ignore[misc]
                site.publish(DeadlineCheck.TOPIC, [DeadlineCheck().outgoing()])
                site._sent -= 1
            site._late = before
        return do()

    return interfere


class Shuffled:
    """Picks any of the waiting messages."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random = random.Random(seed)

    def __call__(self, waiting: Sequence[Waiting]) -> int:
        return self._random.randrange(len(waiting))


class Copies(Shuffled):
    """Delivers every third message once more."""

    def __call__(self) -> int:  # type: ignore[override]
        return int(self._random.random() < 0.34)


def down(story: Story, wanted: Call) -> Interference:
    """A port that does not answer for ten minutes."""
    since: list[float] = []

    def interfere(site: Site, call: Call, do: Callable[[], Any]) -> Any:
        if call.number == wanted.number if story.repeats else (call.method, call.argument) == (wanted.method, wanted.argument):
            since.append(site.elapsed)
        if since and call.port == wanted.port and site.elapsed < since[0] + 600:
            raise failure(call.port)
        return do()

    return interfere
