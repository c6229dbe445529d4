"""What is seen of a running pipeline: its figures in short, their history, and the plan of each processor."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Query

from gauss.api.actions import actions, processor_row
from gauss.api.overview import overview
from gauss.model.errors import NotFound
from gauss.stream.control.run import Running


def routes(running: Running) -> APIRouter:
    router = APIRouter(prefix="/api")

    @router.get(
        "/overview", tags=["run"], summary="Headline, bottleneck, and each topic and processor with rate and pressure"
    )
    def shown() -> dict[str, Any]:
        return overview(running)

    @router.get("/history", tags=["run"], summary="Records per second of each topic and processor in the last minute")
    def history() -> dict[str, Any]:
        return running.sampler.history()

    @cache
    def plan_of(name: str) -> dict[str, Any]:
        from gauss.stream.driver.planning.chains import find_chains
        from gauss.stream.driver.planning.explain import RUNS, explain

        found = explain(running.pipeline, running.graph, find_chains(running.pipeline, running.graph), name)
        lines = [{"step": word, "what": text} for word, text in found.lines()]
        return {"name": name, "runs": found.runs, "summary": RUNS[found.runs], "lines": lines}

    @router.get("/processors/{name}/plan", tags=["processors"], summary="How a processor runs, as in `gauss explain`")
    def plan(name: str) -> dict[str, Any]:
        if name not in running.graph.processors:
            known = ", ".join(running.graph.processors) or "none"
            raise NotFound(f'no processor "{name}"', hint=f"processors of this run: {known}")
        redacted: dict[str, Any] = running.redactor.redact_data(plan_of(name))
        return redacted

    @router.get("/processors/{name}", tags=["processors"], summary="One processor with state and counters")
    def one(name: str) -> dict[str, Any]:
        return processor_row(running, name)

    @router.get(
        "/processors/{name}/actions", tags=["processors"], summary="What can be done with a processor, and its effects"
    )
    def possible(
        name: str,
        to: Annotated[str, Query(description="where a seek would go: earliest, end, an offset, or -N")] = "earliest",
        topic: Annotated[str, Query(description="which of its sources a seek would move")] = "",
    ) -> dict[str, Any]:
        return {"actions": actions(running, name, to, topic)}

    return router
