"""passthrough: nothing is changed or parsed."""

from __future__ import annotations

import pyarrow as pa

from gauss import registry
from gauss.contracts.chunk import Chunk
from gauss.contracts.framing import FramingSpec
from gauss.contracts.processor import ProcessorSpec, Where
from gauss.contracts.transform import Schemas
from gauss.model.names import DATA_COLUMN, ROW_COLUMN, TS_MS_COLUMN
from gauss.plugins.processors.passthrough.spark import PassthroughTransform
from gauss.plugins.processors.passthrough.spec import PassthroughConfig
from gauss.plugins.processors.passthrough.transform import PassthroughEngineTransform


def test_the_chunk_itself_goes_on() -> None:
    framing = registry.build(spec := registry.spec(FramingSpec, "newline"), spec.validate({}))
    chunk = Chunk(b"\xff\xfe\n", 1, 5, framing)
    assert PassthroughEngineTransform(PassthroughConfig()).apply(chunk, 0) == (chunk, [])


def test_on_spark_no_field_is_decoded_and_bytes_pass_in_a_standing_task() -> None:
    transform = PassthroughTransform(PassthroughConfig())
    assert transform.bind(Schemas()).fields == []
    given = pa.RecordBatch.from_pydict(
        {TS_MS_COLUMN: [1, 2], DATA_COLUMN: [b"\xff\x00", b""], ROW_COLUMN: [0, 1], "ts_ms": [1, 2]}
    )
    assert transform.arrow(given).equals(given.drop_columns(["ts_ms"]))
    spec = registry.spec(ProcessorSpec, "passthrough")
    assert spec.hosted
    assert spec.passes_bytes


def test_both_forms_can_be_built_from_the_spec() -> None:
    spec = registry.spec(ProcessorSpec, "passthrough")
    assert spec.where is Where.EITHER
    assert isinstance(registry.build(spec, spec.validate({})), PassthroughTransform)
    assert spec.engine_implementation.endswith(":PassthroughEngineTransform")
