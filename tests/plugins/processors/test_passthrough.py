"""passthrough: nothing is changed or parsed."""

from __future__ import annotations

from gauss import registry
from gauss.contracts.chunk import Chunk
from gauss.contracts.framing import FramingSpec
from gauss.contracts.processor import ProcessorSpec, Where
from gauss.contracts.transform import Schemas
from gauss.plugins.processors.passthrough.spark import PassthroughTransform
from gauss.plugins.processors.passthrough.spec import PassthroughConfig
from gauss.plugins.processors.passthrough.transform import PassthroughEngineTransform


def test_the_chunk_itself_goes_on() -> None:
    framing = registry.build(spec := registry.spec(FramingSpec, "newline"), spec.validate({}))
    chunk = Chunk(b"\xff\xfe\n", 1, 5, framing)
    assert PassthroughEngineTransform(PassthroughConfig()).apply(chunk, 0) == (chunk, [])


def test_on_spark_no_field_is_decoded() -> None:
    transform = PassthroughTransform(PassthroughConfig())
    frame = object()
    assert transform.bind(Schemas()).fields == []
    assert transform.apply(frame) is frame  # type: ignore[arg-type]


def test_both_forms_can_be_built_from_the_spec() -> None:
    spec = registry.spec(ProcessorSpec, "passthrough")
    assert spec.where is Where.EITHER
    assert isinstance(registry.build(spec, spec.validate({})), PassthroughTransform)
    assert spec.engine_implementation.endswith(":PassthroughEngineTransform")
