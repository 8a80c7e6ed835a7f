"""What is the same for many clusters is asked for once, for some minutes."""

from __future__ import annotations

import threading

import pytest

from shared.adapters.kept import MINUTES, Kept
from shared.ports import Unavailable


def test_an_answer_serves_all_who_ask_until_it_is_old() -> None:
    now, asked = [0.0], list[float]()
    kept = Kept(lambda: now[0])

    def ask() -> int:
        asked.append(now[0])
        return len(asked)

    assert [kept.get("here", ask), kept.get("here", ask), kept.get("there", ask)] == [1, 1, 2]
    now[0] = MINUTES * 60 + 1
    assert kept.get("here", ask) == 3


def test_an_error_is_kept_for_nobody() -> None:
    kept = Kept()

    def away() -> int:
        raise Unavailable("away")

    with pytest.raises(Unavailable):
        kept.get("here", away)
    assert kept.get("here", lambda: 1) == 1


def test_whoever_asks_meanwhile_waits_for_that_answer() -> None:
    kept, asked, going, found = Kept(), list[int](), threading.Event(), list[int]()

    def ask() -> int:
        asked.append(1)
        going.wait()
        return 7

    threads = [threading.Thread(target=lambda: found.append(kept.get("here", ask))) for _ in range(3)]
    for thread in threads:
        thread.start()
    going.set()
    for thread in threads:
        thread.join()
    assert (found, asked) == ([7, 7, 7], [1])
