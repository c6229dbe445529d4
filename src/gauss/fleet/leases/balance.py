"""How many slots each worker should hold, and which ones a worker gives to others.

Every worker computes the same from what the store says, and gives away only what is its own: no two move the same slot,
and each move makes the largest difference smaller, so that moving comes to an end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gauss.fleet.leases.placement import Limits
from gauss.fleet.leases.slots import SlotLease


class Peer(NamedTuple):
    """A live worker that takes slots."""

    id: str
    most: int
    """Slots that it can hold, by its limits and by what is wanted."""
    per_pipeline: int | None = None

    @classmethod
    def of(cls, worker_id: str, limits: Limits, replicas: Sequence[int]) -> Peer:
        """`replicas`: those of each started pipeline."""
        most = sum(replicas if limits.per_pipeline is None else (min(each, limits.per_pipeline) for each in replicas))
        return cls(worker_id, most if limits.slots is None else min(most, limits.slots), limits.per_pipeline)


def targets(total: int, peers: Sequence[Peer], loads: Mapping[str, int]) -> dict[str, int]:
    """The number of slots that each worker should hold of `total`: equal but for one, within what each can hold. Those
    that hold most now keep one more."""
    found: dict[str, int] = {}
    left, waiting = total, sorted(peers, key=lambda each: (-loads.get(each.id, 0), each.id))
    while waiting:
        equal, more = divmod(left, len(waiting))
        full = [each for each in waiting if each.most <= equal]
        if not full:
            return found | {each.id: equal + (number < more) for number, each in enumerate(waiting)}
        for each in full:
            found[each.id] = each.most
            left -= each.most
        waiting = [each for each in waiting if each.id not in found]
    return found


def surplus(
    me: str,
    mine: Sequence[SlotLease],
    peers: Sequence[Peer],
    held: Mapping[str, Counter[str]],
    share: Mapping[str, int],
) -> list[SlotLease]:
    """The slots to give away: those beyond the share of this worker, as far as others have room for them. If nobody
    holds more than their share: one of a pipeline of which another worker, that holds no more in all, holds at least
    two fewer. Where both hold the same number in all, that one must then have another slot to give back."""
    counts = {peer.id: Counter(held.get(peer.id, Counter())) for peer in peers if peer.id != me}
    loads = {peer_id: found.total() for peer_id, found in counts.items()}
    own, left = Counter(lease.pipeline_id for lease in mine), list(mine)
    limits = {peer.id: peer.per_pipeline for peer in peers}
    given: list[SlotLease] = []

    def move(pipeline_id: str, peer_id: str) -> None:
        lease = max((each for each in left if each.pipeline_id == pipeline_id), key=lambda each: each.slot)
        left.remove(lease)
        given.append(lease)
        own[pipeline_id] -= 1
        counts[peer_id][pipeline_id] += 1
        loads[peer_id] += 1

    def accepts(peer_id: str, pipeline_id: str) -> bool:
        limit = limits[peer_id]
        return limit is None or counts[peer_id][pipeline_id] < limit

    def best(peer_ids: Sequence[str]) -> tuple[int, str, str] | None:
        """The move that makes the largest difference of a pipeline smaller."""
        return max(
            (
                (own[pipeline_id] - counts[peer_id][pipeline_id], pipeline_id, peer_id)
                for peer_id in peer_ids
                for pipeline_id in own
                if own[pipeline_id] and accepts(peer_id, pipeline_id)
            ),
            default=None,
        )

    while len(left) > share.get(me, 0):
        needy = [each for each in counts if loads[each] < share.get(each, 0)]
        if (found := best(needy)) is None:
            return given
        move(found[1], found[2])
    if given or any(loads[each] > share.get(each, 0) for each in counts):
        return given
    most = {peer.id: peer.most for peer in peers}
    mine_accept = limits.get(me)

    def gives_back(peer_id: str) -> bool:
        """Whether it has more of some pipeline than this worker, which may take it."""
        return any(
            number > own[pipeline_id] and (mine_accept is None or own[pipeline_id] < mine_accept)
            for pipeline_id, number in counts[peer_id].items()
        )

    even = [
        each
        for each in counts
        if loads[each] < most[each]
        and (loads[each] < len(left) or (loads[each] == len(left) and me < each and gives_back(each)))
    ]  # of two that hold the same number only one gives
    if (found := best(even)) is not None and found[0] >= 2:
        move(found[1], found[2])
    return given
