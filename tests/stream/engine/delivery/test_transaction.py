"""Commits to several topics at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from gauss.clients.engine.positions import Ends
from gauss.contracts.chunk import Chunk
from gauss.model.errors import StorageError
from gauss.stream.engine.delivery.transaction import Transaction
from gauss.stream.engine.journal.entries import Pulled
from gauss.stream.engine.topics.topic import Publishable
from helpers.delivery import Delivery


def chunk(*records: bytes) -> Chunk:
    return Chunk(pa.array(records, pa.binary()), len(records), 1000)


def pulled(number: int, ended: Ends) -> Pulled:
    return Pulled(number, "source", "here", ended)


def test_chunks_of_all_topics_become_visible_with_the_entry(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    transaction = Transaction(delivery.topics, delivery.ledger)
    assert not transaction.add("out", [chunk(b"a"), chunk(b"b")])
    assert not transaction.add("other", [chunk(b"c")])
    ended = transaction.commit(pulled)
    assert {name: at.off for name, at in ended.items()} == {"out": 2, "other": 1}
    assert delivery.ledger.outside("source") == "here"
    assert (delivery.data("out"), delivery.data("other")) == ([b"a", b"b"], [b"c"])


def test_topic_without_chunks_is_part_of_the_entry(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    transaction = Transaction(delivery.topics, delivery.ledger)
    transaction.add("out", [])
    assert transaction.commit(pulled)["out"].off == 0


def test_nothing_is_visible_when_the_journal_refuses_the_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delivery = Delivery(tmp_path)
    transaction = Transaction(delivery.topics, delivery.ledger)
    transaction.add("out", [chunk(b"a")])
    transaction.add("other", [chunk(b"c")])

    def fails(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patched, pytest.raises(StorageError):
        patched.setattr(delivery.ledger, "commit", fails)
        transaction.commit(pulled)
    assert (delivery.data("out"), delivery.data("other")) == ([], [])
    delivery.feed(b"later", topic="out")
    assert delivery.data("out") == [b"later"]


def test_refused_topic_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    transaction = Transaction(delivery.topics, delivery.ledger)
    transaction.add("other", [chunk(b"c")])
    transaction.add("out", [chunk(b"a")])

    def check(topic: Publishable) -> None:
        if topic.name == "out":
            raise StorageError("it has changed")

    with pytest.raises(StorageError):
        transaction.commit(pulled, check=check)
    assert delivery.data("other") == []


def test_chunks_made_while_they_are_appended_are_committed_too(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    transaction = Transaction(delivery.topics, delivery.ledger)
    transaction.add_later("out", (chunk(b"%d" % number) for number in range(3)))
    assert transaction.commit(pulled)["out"].off == 3


def test_waiting_for_room_names_the_full_topic(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, size=1)
    delivery.topics["out"].reader("slow", "earliest", keep=False)
    delivery.feed(b"held", topic="out")
    transaction = Transaction(delivery.topics, delivery.ledger)
    transaction.add("other", [chunk(b"c")])
    transaction.add("out", [chunk(b"a")])
    assert transaction.wait_room(threading.Event(), 0.05) == "out"
    cancelled = threading.Event()
    cancelled.set()
    assert transaction.wait_room(cancelled) == "out"
