"""How long a test waits for results before a case fails."""

from __future__ import annotations

from typing import Any, NamedTuple

from gauss.stream.flowtest.cases import Case, Expect
from gauss.stream.flowtest.run import IN_VAIN, _await


class Node(NamedTuple):
    stateful: bool = True
    table: str = ""


class Still:
    """A flow whose queries have no work after some epochs, and whose topic stays empty."""

    def __init__(self, epochs: int) -> None:
        self._left, self.looks = epochs, 0
        self._vain = 0
        self.graph: Any = self
        self.processors, self.topics = {"p": Node()}, {"out": Node()}
        self.needs_spark = True

    def settle(self, seconds: float) -> dict[str, Any]:  # noqa: ARG002
        self.looks += 1
        return {"out": (1, 0)}

    def epochs(self) -> dict[str, tuple[int, int]]:
        self._left, self._vain = max(self._left - 1, 0), self._vain + 1
        return {"p": (self._left, self._vain)}

    def found(self, topic: str) -> list[bytes]:  # noqa: ARG002
        return []

    def dead_letters(self) -> list[dict[str, Any]]:
        return []


def test_a_stateful_flow_that_asks_in_vain_has_failed_at_once_and_not_before() -> None:
    world: Any = Still(epochs=9)
    case = Case(name="c", expect=(Expect(topic="out", count=1),))
    codec: Any = None
    assert [problem.where for problem in _await(world, case, codec)] == ["topic out"]
    assert world.looks == 8 + IN_VAIN
