"""The order of several partitions: every record once, the same order after a restart."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.model.errors import Damaged, DiskFull
from gauss.plugins.storages.kafka import order_file, topic_state
from gauss.plugins.storages.kafka.identity import Identity
from gauss.plugins.storages.kafka.order_file import OrderFile, load
from gauss.plugins.storages.kafka.order_index import OrderIndex
from gauss.plugins.storages.kafka.topic_state import TopicState
from helpers.cases import cases
from helpers.disks import fill, small_file_system

Ends = dict[int, int]

growths = st.lists(
    st.dictionaries(st.integers(0, 4), st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=25
)
"""For each step the partitions that grow, and by how much; partitions are added as they come."""


def _steps(growth: list[Ends]) -> list[Ends]:
    """The ends after each step."""
    ends: Ends = {}
    found = []
    for each in growth:
        ends = {**ends, **{number: ends.get(number, 0) + by for number, by in each.items()}}
        found.append(dict(ends))
    return found


def _places(index: OrderIndex, start: int = 0, stop: int | None = None) -> list[tuple[int, int, int]]:
    """(offset, partition, offset in the partition) of each record."""
    found = []
    for piece in index.pieces(start, index.end if stop is None else stop):
        for step, record in enumerate(range(piece.start, piece.stop)):
            found.append((piece.offset + step, piece.partition, record))
    return found


@given(growths)
def test_every_record_has_one_offset_in_the_order_in_which_it_was_seen(growth: list[Ends]) -> None:
    index, seen = OrderIndex(), list[tuple[int, int, int]]()
    for ends in _steps(growth):
        index.grow(index.growth(ends))
        places = _places(index)
        assert places[: len(seen)] == seen  # nothing moves
        seen = places
    wanted = {(number, record) for number, end in _steps(growth)[-1].items() for record in range(end)}
    assert [place[0] for place in seen] == list(range(len(wanted)))
    assert {place[1:] for place in seen} == wanted
    position = dict.fromkeys(index.ends_at(0), 0)
    for offset, partition, record in seen:
        assert index.offset_of(partition, record) == offset
        assert index.ends_at(offset) == position
        position[partition] += 1
    assert index.ends_at(index.end) == index.ends_at(index.end + 9) == position


@given(growths, st.data())
def test_a_part_of_the_log_has_the_same_places_as_the_whole(growth: list[Ends], data: st.DataObject) -> None:
    index = OrderIndex()
    for ends in _steps(growth):
        index.grow(index.growth(ends))
    start = data.draw(st.integers(0, index.end))
    stop = data.draw(st.integers(start, index.end))
    assert _places(index, start, stop) == _places(index)[start:stop]


@settings(max_examples=cases(40))
@given(growths, st.data())
def test_an_index_has_the_same_places_after_restarts_and_torn_writes(growth: list[Ends], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / order_file.NAME
        index = OrderIndex()
        file = OrderFile(path, index, 7)
        for ends in _steps(growth):
            grown = index.growth(ends)
            file.append(grown)
            index.grow(grown)
            if data.draw(st.booleans()):
                file.close()
                if torn := data.draw(st.sampled_from([b"", b"\1", b"\2\0\0\0abcd", b"\0" * 20])):
                    path.write_bytes(path.read_bytes() + torn)
                loaded = load(path, 7)
                assert loaded is not None
                assert _places(loaded) == _places(index)
                index = loaded
                file = OrderFile(path, index, 7)
        file.close()


@given(growths, st.data())
def test_the_floor_is_the_first_record_that_is_left(growth: list[Ends], data: st.DataObject) -> None:
    index, ends = OrderIndex(), _steps(growth)[-1]
    for each in _steps(growth):
        index.grow(index.growth(each))
    earliest = {number: data.draw(st.integers(0, end)) for number, end in ends.items()}
    left = [offset for offset, partition, record in _places(index) if record >= earliest[partition]]
    floor = index.floor(earliest, 0)
    assert floor == min(left, default=index.end)
    places = _places(index)
    index.forget(floor)
    assert index.begin <= floor
    assert _places(index, floor) == places[floor:]
    with TemporaryDirectory() as folder:
        OrderFile(Path(folder) / "x", index, 7).close()
        loaded = load(Path(folder) / "x", 7)
        assert loaded is not None
        assert _places(loaded, floor) == places[floor:]


def test_growth_of_one_partition_takes_one_step() -> None:
    index = OrderIndex()
    for end in range(1, 1000):
        index.grow({3: end})
    assert index.nbytes < 200


def test_damage_before_the_end_is_reported(tmp_path: Path) -> None:
    path = tmp_path / order_file.NAME
    index = OrderIndex()
    for end in range(1, 20):
        index.grow({end % 2: end})
    OrderFile(path, index, 7).close()
    content = bytearray(path.read_bytes())
    content[60] ^= 1
    path.write_bytes(content)
    with pytest.raises(Damaged, match=order_file.NAME):
        load(path, 7)
    assert load(path, 8) is None


def test_index_of_a_topic_keeps_what_lies_above_its_floor(tmp_path: Path) -> None:
    state = TopicState(tmp_path, Identity("t", "id", 7), 4)
    for number in range(20_000):
        state.advance({3 - number % 4: number}, now=True)
    state.retain(dict.fromkeys(range(4), 19_000))
    before = list(state.index.pieces(state.floor, state.end))
    size = (tmp_path / order_file.NAME).stat().st_size
    state.maintain()
    assert (tmp_path / order_file.NAME).stat().st_size < size / 10
    state.close()
    again = TopicState(tmp_path, state.identity, 4)
    assert list(again.index.pieces(state.floor, again.end)) == before
    again.close()


def test_steps_become_longer_as_the_index_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_state, "LARGE_INDEX", 1_000)
    monkeypatch.setattr(topic_state, "STEP_SECONDS", 3600.0)
    state = TopicState(tmp_path, Identity("t", "id", 7), 2)
    state.advance({1: 1})
    assert state.end == 1
    state.advance({0: 1})
    assert (state.end, state.ends, state.is_stepping) == (1, {0: 1, 1: 1}, True)
    state.advance({0: topic_state.STEP_RECORDS})
    assert (state.end, state.is_stepping) == (topic_state.STEP_RECORDS + 1, False)
    state.close()


def test_full_disk_leaves_the_end_where_it_is_and_no_damage(tmp_path: Path) -> None:
    with small_file_system(tmp_path / "small", "64k") as folder:
        state = TopicState(folder, Identity("t", "id", 7), 2)
        state.advance({0: 1, 1: 1}, now=True)
        fill(folder / "filler")
        ends = {0: 1, 1: 1}
        with pytest.raises(DiskFull):
            for number in range(10_000):
                ends[1 - number % 2] += 1
                state.advance(ends, now=True)
        end = state.end
        assert end < sum(ends.values()) == sum(state.ends.values())
        (folder / "filler").unlink()
        state.advance(ends, now=True)
        before = _places(state.index)
        state.close()
        again = TopicState(folder, state.identity, 2)
        assert (_places(again.index), again.end) == (before, end + 1)
        again.close()
