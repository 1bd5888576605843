"""Where a key is asked for: the region that holds it, and where next when a store refuses."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.upstream.memcomparable import encode_bytes
from tidelog_proto.errorpb_pb2 import Error
from tidelog_proto.metapb_pb2 import Peer, Region


@dataclass(frozen=True)
class Place:
    """A region, and the peer of it that is taken for its leader."""

    region: Region
    peer: Peer


def first_place(region: Region, leader: Peer) -> Place | None:
    """As PD tells; None where the region has no peer."""
    if leader.id:
        return Place(region, leader)
    return Place(region, region.peers[0]) if region.peers else None


def next_peer(place: Place) -> Place:
    """Another peer of the same region, each in its turn."""
    peers = list(place.region.peers)
    ids = [peer.id for peer in peers]
    at = ids.index(place.peer.id) + 1 if place.peer.id in ids else 0
    return Place(place.region, peers[at % len(peers)]) if peers else place


def place_after(error: Error, place: Place, key: bytes) -> Place | None:
    """Where to ask after a region error, as far as the store knows better than PD, which hears of
    a change a little later; None: ask PD."""
    match _kind(error):
        case "not_leader":
            if error.not_leader.leader.id:
                return Place(place.region, error.not_leader.leader)
            return next_peer(place)
        case "epoch_not_match":
            for region in error.epoch_not_match.current_regions:
                if holds(region, key):
                    return first_place(region, _on_store(region, place.peer.store_id))
            return None
        case "server_is_busy":
            return place
        case _:
            return None


def holds(region: Region, key: bytes) -> bool:
    """Is this key within the region's bounds?"""
    encoded = encode_bytes(key)
    return region.start_key <= encoded and (not region.end_key or encoded < region.end_key)


def _on_store(region: Region, store_id: int) -> Peer:
    return next((peer for peer in region.peers if peer.store_id == store_id), Peer())


def _kind(error: Error) -> str:
    for kind in ("not_leader", "epoch_not_match", "server_is_busy"):
        if error.HasField(kind):
            return kind
    return ""
