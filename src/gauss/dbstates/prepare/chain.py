"""The chain of states that a plan leads to, on one build."""

from __future__ import annotations

from dataclasses import dataclass

from gauss.dbstates.planning.plan import Plan, Step, state_id
from gauss.dbstates.runtimes.runtime import Build
from gauss.dbstates.store.states import StatePlace


@dataclass(frozen=True)
class Link:
    """A step and the state that it makes."""

    step: Step
    place: StatePlace


def chain_of(plan: Plan, build: Build) -> list[Link]:
    """Each state's parent is the one before it; the first one's is the empty cluster of the build."""
    links: list[Link] = []
    parent = build.base
    for step in plan.steps:
        state = state_id(plan.kind, parent, step.content, f"{build.engine}-{build.version}")
        place = StatePlace(state, plan.kind, parent, build.base, build.engine, build.version, step.number, step.title)
        links.append(Link(step, place))
        parent = state
    return links
