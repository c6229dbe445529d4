"""Whether a preparation is a hit, and if not, what of it differs from the nearest state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gauss.dbstates.planning.explain import distance, explain
from gauss.dbstates.planning.plan import Ingredient
from gauss.dbstates.prepare.chain import Link
from gauss.dbstates.prepare.context import Context
from gauss.dbstates.prepare.inputs import LockedInputs
from gauss.dbstates.prepare.planner import Planner
from gauss.dbstates.prepare.requests import PrepareRequest


class Explainer:
    """Plans a request and compares the first step that is not cached with the states that exist."""

    def __init__(self, context: Context, planner: Planner) -> None:
        self._context, self._planner = context, planner

    def explain(self, request: PrepareRequest) -> dict[str, Any]:
        build = self._planner.runtime(request).resolve(self._planner.image(request))
        with LockedInputs() as inputs:
            planned = self._planner.plan(request, build, request.env, inputs)
        done = self._context.cache.deepest(planned.ids)
        steps = [
            {
                "number": link.step.number,
                "title": link.step.title,
                "state_id": link.place.id,
                "cached": number <= done,
                "marks": [vars(mark) for mark in link.step.marks],
            }
            for number, link in enumerate(planned.chain, 1)
        ]
        ancestor = planned.chain[done - 1] if done else None
        found: dict[str, Any] = {
            "outcome": "hit" if done == len(planned.chain) else "miss",
            "state_id": planned.ids[-1],
            "steps": steps,
            "nearest": None
            if ancestor is None
            else {"state_id": ancestor.place.id, "title": ancestor.step.title, "number": done},
        }
        if done == len(planned.chain):
            return {**found, "reason": "all steps are cached", "changes": []}
        return {**found, **self.reason(planned.chain[done])}

    def reason(self, link: Link) -> dict[str, Any]:
        """Why a step is not cached: compares it with the most similar state in its place."""
        place = link.place
        ready = [row for row in self._context.states.all() if row["status"] == "ready" and row["kind"] == place.kind]
        siblings = [row for row in ready if row["parent"] == place.parent]
        others = [row for row in ready if row["base"] != place.base and row["number"] == place.number]
        known = {  # not of all states: a cache may have thousands
            row["id"]: [Ingredient(**each) for each in self._context.states.ingredients(row["id"])]
            for row in (*siblings, *others)
        }
        same = [row for row in (*siblings, *others) if _texts(known[row["id"]]) == _texts(link.step.ingredients)]
        elsewhere = [row for row in same if row in others]
        if elsewhere and not any(row in siblings for row in same):
            version = elsewhere[-1]["version"]
            change = {"kind": "server", "name": place.version, "line": None, "change": "changed"}
            return {"reason": f"the server changed: {version} → {place.version}", "changes": [change]}
        if siblings:
            new = link.step.ingredients
            closest = explain(min((known[row["id"]] for row in siblings), key=lambda old: distance(old, new)), new)
            if closest:
                told = ", ".join(map(str, closest[:3]))
                more = f" and {len(closest) - 3} more" if len(closest) > 3 else ""
                changes = [vars(each) for each in closest]
                return {"reason": f"step {link.step.number} ({link.step.title}): {told}{more}", "changes": changes}
            return {"reason": f"step {link.step.number} ({link.step.title}): its text has changed", "changes": []}
        if not ready:
            return {"reason": "the cache is empty", "changes": []}
        return {"reason": f"step {link.step.number} ({link.step.title}) is new here", "changes": []}


def _texts(ingredients: Iterable[Ingredient]) -> set[tuple[str, str]]:
    """The texts of a step, whatever else it depends on."""
    return {(each.name, each.digest) for each in ingredients if each.kind in ("file", "inline")}
