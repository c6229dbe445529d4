"""The memory of all connections together is limited; connections that finish their records are not closed because of
others."""

from __future__ import annotations

import socket
import threading
import time

import pytest
import zstandard

from gauss.model.errors import FrameError
from gauss.plugins.processors.tcp_source.budget import BufferBudget, Holding
from helpers.edges import Bench, Running, records
from helpers.waiting import wait_until

MIB = 1 << 20


class Peer:
    """The account of a connection whose owner releases its memory when asked."""

    def __init__(self, budget: BufferBudget) -> None:
        self.gone = threading.Event()
        self.holding: Holding = budget.open(self._end)

    def _end(self) -> None:
        self.gone.set()
        threading.Thread(target=self.holding.close).start()

    def hold(self, nbytes: int) -> None:
        self.holding.hold(nbytes)


def budget(most: int = 10 * MIB) -> BufferBudget:
    return BufferBudget(most, threading.Event())


def test_the_connection_that_has_kept_most_for_longest_goes_and_the_asking_one_gets_its_room() -> None:
    shared = budget()
    peers = [Peer(shared) for _ in range(4)]
    for size, peer in enumerate(peers, start=1):
        peer.hold(size * MIB)
        peer.holding.since -= 100
    asking = Peer(shared)
    asking.hold(3 * MIB)
    assert [peer.gone.is_set() for peer in peers] == [False, False, False, True]
    with pytest.raises(FrameError, match="max_buffer_bytes"):
        peers[3].holding.hold(0)
    assert peers[3].holding.evicted


def test_small_holders_are_spared_however_old_they_are() -> None:
    shared = budget()
    small = [Peer(shared) for _ in range(10)]
    for peer in small:
        peer.hold(48 << 10)
        peer.holding.since -= 1e6
    large = Peer(shared)
    large.hold(9 * MIB)
    other = Peer(shared)
    other.hold(2 * MIB)
    assert large.gone.is_set()
    assert not any(peer.gone.is_set() for peer in small)


def test_one_that_asks_for_too_much_goes_itself_when_it_weighs_most() -> None:
    shared = budget()
    honest = Peer(shared)
    honest.hold(MIB)
    greedy = Peer(shared)
    greedy.hold(8 * MIB)
    greedy.holding.since -= 5
    with pytest.raises(FrameError) as caught:
        greedy.hold(12 * MIB)
    assert caught.value.reason == "over_budget"
    assert not honest.gone.is_set()


def test_finishing_a_record_makes_a_connection_young_again() -> None:
    shared = budget()
    one, two = Peer(shared), Peer(shared)
    one.hold(5 * MIB)
    two.hold(4 * MIB)
    one.holding.since -= 100
    two.holding.since -= 50
    one.holding.finished()
    Peer(shared).hold(3 * MIB)
    assert (one.gone.is_set(), two.gone.is_set()) == (False, True)


def test_everything_is_given_back() -> None:
    shared = budget()
    peers = [Peer(shared) for _ in range(5)]
    for peer in peers:
        peer.hold(2 * MIB)
    for peer in peers:
        peer.holding.close()
    assert shared.room() == 10 * MIB


def test_memory_goes_back_to_the_system_also_after_one_that_was_refused_what_it_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    returned: list[int] = []
    monkeypatch.setattr("gauss.plugins.processors.tcp_source.budget.give_back", lambda: returned.append(1))
    shared = budget()
    small, evicted, greedy = Peer(shared), Peer(shared), Peer(shared)
    small.hold(MIB // 2)
    small.holding.close()
    shared.give_back()
    assert not returned
    evicted.holding.evicted = True
    for peer in (evicted, greedy):
        with pytest.raises(FrameError):
            peer.hold(11 * MIB)
        peer.holding.close()
        shared.give_back()
    assert len(returned) == 2


def test_memory_goes_back_after_each_large_connection_though_another_returned_memory_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    returned: list[int] = []
    monkeypatch.setattr("gauss.plugins.processors.tcp_source.budget.give_back", lambda: returned.append(1))
    shared = budget()
    closed, other_has_returned = threading.Event(), threading.Event()

    def late() -> None:
        peer = Peer(shared)
        peer.hold(2 * MIB)
        peer.holding.close()
        closed.set()
        other_has_returned.wait(10)  # its buffers are released only now
        shared.give_back()

    thread = threading.Thread(target=late)
    thread.start()
    closed.wait(10)
    early = Peer(shared)
    early.hold(2 * MIB)
    early.holding.close()
    shared.give_back()
    other_has_returned.set()
    thread.join()
    assert len(returned) == 2


def half_records(source: Running, count: int, size: int, head: bytes = b"") -> list[socket.socket]:
    """Connections that send `size` bytes without the end of a record, as far as they can."""
    made = []
    for _ in range(count):
        sock = source.connect()
        sock.settimeout(5)
        try:
            sock.sendall(head + b"x" * size)
        except OSError:
            pass  # the server has closed it, as expected
        made.append(sock)
    return made


def test_senders_that_never_finish_are_closed_and_the_others_go_on(bench: Bench) -> None:
    topic = bench.topic()
    source = bench.source(topic, max_record_bytes=4 * MIB, max_buffer_bytes=16 * MIB)
    slow = source.connect()
    slow.sendall(b"slow, ")
    hostile = half_records(source, 12, 3 * MIB)
    wait_until(lambda: any(letter.reason == "over_budget" for letter in bench.dead))
    letter = next(letter for letter in bench.dead if letter.reason == "over_budget")
    assert "max_buffer_bytes" in letter.detail
    assert letter.data.startswith(b"x")
    honest = source.connect()
    honest.sendall(b"y" * 2 * MIB)
    honest.sendall(b"\n")
    slow.sendall(b"but honest\n")
    wait_until(lambda: topic.version() == 2)
    assert {len(record) for record in records(topic)} == {2 * MIB, 16}
    for sock in (*hostile, slow, honest):
        sock.close()
    wait_until(lambda: source.status.connections == 0)
    assert source.edge._budget.room() == 16 * MIB  # type: ignore[attr-defined]


def test_windows_count_and_a_frame_with_a_larger_one_is_refused(bench: Bench) -> None:
    topic = bench.topic()
    source = bench.source(topic, compression="zstd", max_record_bytes=MIB, max_buffer_bytes=24 * MIB)
    window = zstandard.ZstdCompressionParameters(window_log=23, chain_log=6, hash_log=6)
    streams, socks = [], []
    for _ in range(6):
        stream = zstandard.ZstdCompressor(compression_params=window).compressobj()
        sock = source.connect()
        sock.sendall(stream.compress(b"a line\n") + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
        streams.append(stream)
        socks.append(sock)
    wait_until(lambda: sum(letter.reason == "over_budget" for letter in bench.dead) >= 3)
    wait_until(lambda: source.status.connections <= 3)
    large = zstandard.ZstdCompressionParameters(window_log=27, chain_log=6, hash_log=6)
    made = zstandard.ZstdCompressor(compression_params=large).compressobj()
    with source.connect() as sock:
        sock.sendall(made.compress(b"x" * 100) + made.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
        assert sock.recv(1) == b""
    wait_until(lambda: any(letter.reason == "bad_compression" for letter in bench.dead))
    for sock in socks:
        sock.close()


def test_a_waiting_connection_ends_with_its_source(bench: Bench) -> None:
    source = bench.source(bench.topic(), max_record_bytes=4 * MIB, max_buffer_bytes=8 * MIB)
    socks = half_records(source, 4, 3 * MIB)
    began = time.monotonic()
    source.edge.close()
    wait_until(lambda: source.status.connections == 0)
    assert time.monotonic() - began < 60
    for sock in socks:
        sock.close()
