"""A Drainer's data directory is of one feed: by another one's record it would be placed wrongly."""

from __future__ import annotations

import pytest

from tidelog.errors import ForeignDirectory
from tidelog.feeds import Feed
from tidelog.sealed import seal
from tidelog.sim import World, run
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.publish.beginning import FEED_FILE
from tidelog_drainer.service import build

CONFIG = DrainerConfig(feed="main")


def kept(name: str) -> bytes:
    return seal(Feed(name, created_ms=5, begun=True))


def test_a_directory_of_another_feed_is_refused() -> None:
    async def main(world: World) -> None:
        node = world.node("drainer")
        node.disk.restore({FEED_FILE: kept("orders")})
        with pytest.raises(ForeignDirectory, match="belongs to a Drainer of feed orders") as caught:
            build(CONFIG, node.ports())
        assert "feed = 'orders'" in caught.value.hint

    run(main)


@pytest.mark.parametrize("file", [kept("main"), b"nothing of ours"], ids=["its own", "unreadable"])
def test_its_own_is_not_nor_what_can_t_be_read(file: bytes) -> None:
    """What can't be read is said once it is needed."""

    async def main(world: World) -> None:
        node = world.node("drainer")
        node.disk.restore({FEED_FILE: file})
        build(CONFIG, node.ports())

    run(main)
