"""Starts streaming queries of single processors."""

from __future__ import annotations

from typing import Any

from gauss.clients.engine.task_messages import Claim
from gauss.config.topics import topics_of
from gauss.stream.driver.planning.reads import ReadRecords
from gauss.stream.driver.planning.refs import encode_fields
from gauss.stream.driver.planning.writes import WriteRows
from gauss.stream.driver.queries import compile as compiling


def start_query(run: Any, spark: Any, name: str, max_rows: int = 100_000) -> Any:
    """Starts the streaming query of a processor of a running engine (`EngineRun`)."""
    processor = next(each for each in run.pipeline.processors if each.name == name)
    design = compiling.design(run.pipeline, processor)
    sources = [source.topic for source in topics_of(processor)[0]]
    claimed = run.client.claim(Claim(name, "c", sources, [f"{name}.out"], stateful=True))
    flight, fields = str(run.data_dir.flight_json), design.decided({})
    read = ReadRecords(
        flight,
        name,
        claimed.generation,
        design.input,
        encode_fields(fields),
        start=claimed.start,
        max_rows=max_rows,
    )
    folder, target = run.data_dir.checkpoints / name, f"{name}.out"
    write = WriteRows(
        flight, name, claimed.generation, target, design.output, checkpoint="c", checkpoint_dir=str(folder), series="c"
    )
    timed = compiling.by_time(read, design, fields, folder / "restored.arrow")
    return compiling.start(spark, timed, write, design)
