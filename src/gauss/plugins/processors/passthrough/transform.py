"""passthrough inside the engine: the chunk itself goes on, not even its records are counted anew."""

from __future__ import annotations

from gauss.contracts.chunk import Chunk
from gauss.contracts.edge import Changed
from gauss.plugins.processors.passthrough.spec import PassthroughConfig


class PassthroughEngineTransform:
    def __init__(self, config: PassthroughConfig) -> None:
        self._config = config

    def apply(self, chunk: Chunk, offset: int) -> Changed:  # noqa: ARG002
        return Changed(chunk, [])
