from __future__ import annotations

import asyncio
import threading

import pytest

from vitrine_server.jobs.feed import Event, Feed, event


async def ids(feed: Feed, after: int = -1) -> list[int]:
    return [one.id async for one in feed.follow(after)]


def test_past_and_future_events_come_in_order() -> None:
    feed = Feed()
    feed.publish(event(0, "a", {}))
    seen: list[int] = []

    async def follow() -> None:
        async for one in feed.follow():
            seen.append(one.id)
            if one.id == 0:  # the rest comes from another thread, while this one waits
                threading.Thread(target=write).start()

    def write() -> None:
        feed.publish(event(1, "b", {}))
        feed.publish(event(2, "c", {}))
        feed.close()

    asyncio.run(follow())
    assert seen == [0, 1, 2]
    assert asyncio.run(ids(feed)) == [0, 1, 2]
    assert asyncio.run(ids(feed, after=1)) == [2]


def test_several_events_may_share_an_id() -> None:
    feed = Feed()
    feed.publish(event(0, "queued", 2), event(0, "queued", 1), event(1, "started", None))
    feed.close()
    assert asyncio.run(ids(feed)) == [0, 0, 1]


def test_whoever_leaves_is_forgotten() -> None:
    feed = Feed()
    feed.publish(event(0, "a", {}))

    async def peek() -> Event:
        following = feed.follow()
        first = await anext(following)
        await following.aclose()  # type: ignore[attr-defined]
        return first

    assert asyncio.run(peek()).name == "a"
    assert not feed._followers
    feed.publish(event(1, "b", {}))  # wakes nobody, and fails on nobody


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_json_has_no_nan(number: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        event(0, "method", {"scores": [number]})
