"""Journal entries: those written before a field existed can be read, and are written again with the same bytes."""

from __future__ import annotations

import pytest

from gauss.clients.engine.positions import At
from gauss.stream.engine.journal.entries import EpochPublished, LedgerState, LettersReplayed, RetryOrigin
from gauss.stream.engine.journal.ledger_state import decode, encode

PUBLISHED = (
    b"\x89\xa4type\xaeEpochPublished\xa6number\xcf\x00\x00\x00\x01\x00\x00\x00\x01\xa9processor\xa1p\xaacheckpoint\xa3c-1"
    b"\xa5epoch\x03\xa4ends\x81\xa2in\x84\xa3inc\xcf\x00\x00\x01\x8b\xcf\xe5h\x00\xa3off*\xa4seen\x07\xa4beat\t\xa6topics"
    b"\x81\xa3out\x82\xa3inc\xcf\x00\x00\x01\x8b\xcf\xe5h\x01\xa3off(\xa4seen\x81\xa2in\x08\xa5moved\x80"
)
MOVED = b"\x82\xa4type\xa5Moved\xa9positions\x81\xa3out\x81\xa4sink\x82\xa3inc\x05\xa3off\x06"
PULLED = (
    b"\x85\xa4type\xa6Pulled\xa6number\xcf\x00\x00\x00\x01\x00\x00\x00\x02\xa9processor\xa2pg\xa8position\xa90/16B3748"
    b"\xa6topics\x81\xa4rows\x82\xa3inc\xcf\x00\x00\x01\x8b\xcf\xe5h\x02\xa3off\x03"
)
REPLAYED = (
    b"\x86\xa4type\xafLettersReplayed\xa6number\xcf\x00\x00\x00\x01\x00\x00\x00\x03\xa9processor\xa1p\xa4keys\x91\x93"
    b"\xa2in\xcf\x00\x00\x01\x8b\xcf\xe5h\x00\x05\xa6topics\x81\xa8_retry.p\x82\xa3inc\x08\xa3off\x01\xa7origins\x91\x84"
    b"\xa5topic\xa2in\xa3inc\xcf\x00\x00\x01\x8b\xcf\xe5h\x00\xa6offset\x05\xa8attempts\x01"
)
STATE = (
    b"\x8b\xa4type\xa5State\xa3run\x02\xaaprocessors\x80\xa9positions\x80\xa4incs\x80\xa9published\x81\xa3out\x82\xa3inc"
    b"\xcf\x00\x00\x01\x8b\xcf\xe5h\x01\xa3off(\xa9committed\x90\xa8replayed\x80\xa6pulled\x81\xa2pg\xa90/16B3748"
    b"\xa7retried\x81\xa8_retry.p\x81\x00\x84\xa5topic\xa2in\xa3inc\x05\xa6offset\x06\xa8attempts\x01\xa7emptied\x80"
)


@pytest.mark.parametrize("body", [PUBLISHED, MOVED, PULLED, REPLAYED, STATE])
def test_entry_written_before_partitions_is_read_and_written_as_it_was(body: bytes) -> None:
    assert encode(decode(body)) == body


def test_positions_written_before_partitions_are_of_partition_0() -> None:
    published, replayed, state = decode(PUBLISHED), decode(REPLAYED), decode(STATE)
    assert isinstance(published, EpochPublished)
    assert isinstance(replayed, LettersReplayed)
    assert isinstance(state, LedgerState)
    assert published.ends == {"in": At(1700000000000, 42, 7, 9, partition=0)}
    assert replayed.origins == [RetryOrigin("in", 1700000000000, 5, 1, partition=0)]
    assert state.published == {"out": At(1700000000001, 40)}
