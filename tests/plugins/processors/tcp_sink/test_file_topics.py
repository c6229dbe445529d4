from __future__ import annotations

import os
import threading

import pytest

from gauss.plugins.storages.file.log import TAIL_BYTES
from helpers.edges import Bench, receive
from helpers.sinks import append, lines


@pytest.mark.parametrize("stored", ["newline", "length_prefixed"])
def test_a_file_topic_is_sent_whether_or_not_it_keeps_the_same_framing(bench: Bench, stored: str) -> None:
    topic = bench.topic("file", framing=stored, **({"delimiter": "\n"} if stored == "newline" else {}))
    source, sink = bench.source(topic), bench.sink(topic)
    wire = lines(0, 50_000)
    with sink.connect() as out, source.connect() as into:
        sender = threading.Thread(target=into.sendall, args=(wire,))
        sender.start()
        assert receive(out, len(wire)) == wire
        sender.join(10)
    with sink.connect() as late:
        assert receive(late, len(wire)) == wire


def test_a_file_topic_in_the_sinks_framing_is_sent_by_the_kernel(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    sendfile = os.sendfile

    def counted(out: int, fd: int, offset: int, count: int) -> int:
        sent.append(sendfile(out, fd, offset, count))
        return sent[-1]

    monkeypatch.setattr(os, "sendfile", counted)
    topic = bench.topic("file", framing="newline")
    pieces = [lines(start, start + 50_000) for start in range(0, 1_200_000, 50_000)]
    for piece in pieces:
        append(topic, piece)
    with bench.sink(topic).connect() as sock:
        assert receive(sock, sum(map(len, pieces))) == b"".join(pieces)
    # The newest bytes are still in memory and are sent from there.
    total = sum(map(len, pieces))
    assert total - 2 * TAIL_BYTES <= sum(sent) < total
