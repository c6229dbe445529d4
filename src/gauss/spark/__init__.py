"""Running on Spark. Nothing here knows a topic or a processor.

- `session`: Spark's settings, and a session on a JVM of this process.
- `jvm`: the JVM: its files, options and start. `archive` and `training` make its class archive.
- `standing`: Spark jobs whose tasks run until they are told to end.
- `daemon`: Spark's Python daemon with everything loaded, from which workers are forked.
- `zygote` and `launcher`: Python processes of a local Spark forked from a preloaded one; off with `spark.zygote`.
- `machine_code`: numba, loaded before the first fork.
"""

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
    """Makes `import pandas` fail in this process and those it starts; only where no third-party code may need it.

    pyarrow imports pandas as soon as it converts a list: half a second of CPU in each of the five processes that start
    before the first record.
    """
    os.environ[_WITHOUT_PANDAS] = "1"
    if not any(isinstance(finder, _NoPandas) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NoPandas())


if os.environ.get(_WITHOUT_PANDAS) == "1":
    leave_out_pandas()
