"""The driver: compiles processors to Spark queries and drives them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_WITHOUT_PANDAS = "GAUSS_WITHOUT_PANDAS"


class _Refuses(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        raise ImportError(f"{spec.name} is left out here")

    def exec_module(self, module: ModuleType) -> None:
        """Never reached."""


class _NoPandas(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, _Refuses()) if fullname == "pandas" else None


def leave_out_pandas() -> None:
    """For this process and those it starts, Spark's workers included; only where no third party might want it.

    pyarrow imports pandas, if there is one, as soon as it sees a list: half a second of CPU in each of the five
    processes that stand between a start and the first record.
    """
    os.environ[_WITHOUT_PANDAS] = "1"
    if not any(isinstance(finder, _NoPandas) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NoPandas())


if os.environ.get(_WITHOUT_PANDAS) == "1":
    leave_out_pandas()
