"""Double-run audit: two cursors over the same snapshot must return the same results."""

from __future__ import annotations

from typing import cast

from gauss.contracts.cursor import Code, Cursor, Output, Seekable, Step
from gauss.model.errors import GaussError
from gauss.scan.outputs import Item, encode_item


class Audited:
    """Runs two cursors in parallel and raises if their results differ."""

    def __init__(self, first: Cursor, second: Cursor, output: Output) -> None:
        self._first, self._second, self._output = first, second, output
        if first.pinned_version != second.pinned_version:
            raise _parted("pinned", first.pinned_version, second.pinned_version)
        self.pinned_version = first.pinned_version

    @property
    def position(self) -> int:
        return self._first.position

    @property
    def hold(self) -> int:
        return self._first.hold

    def seek(self, to: int | str) -> bool:
        one, two = (bool(cast(Seekable, cursor).seek(to)) for cursor in (self._first, self._second))
        if one is not two:
            raise _parted("returned from seek", one, two)
        return one

    def next(self, step: Step) -> Code:
        code, other = self._first.next(step), self._second.next(step)
        if code is not other:
            raise _parted("returned from next", code, other)
        if code is Code.OK:
            self.read()
        return code

    def read(self) -> tuple[Code, Item | None]:
        code, item = self._first.read()
        other, twin = self._second.read()
        if code is not other:
            raise _parted("returned from read", code, other)
        if item is not None and twin is not None:
            one, two = encode_item(self._output, item), encode_item(self._output, twin)
            if one != two:
                raise _parted("returned", one[:40], two[:40])
        return code, item

    def close(self) -> None:
        self._first.close()
        self._second.close()


def _parted(what: str, one: object, two: object) -> GaussError:
    return GaussError(f"two runs of the same scan {what} {one!r} and {two!r}", hint="the provider is not deterministic")
