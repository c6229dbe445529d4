"""The loop of a standing task that empties a table's inbox into the table."""

from __future__ import annotations

from gauss.clients.engine.task_messages import (
    Claim,
    Claimed,
    Emptied,
    Grant,
    Publish,
    PublishAll,
)
from gauss.contracts.table import Emptying
from gauss.model.errors import GaussError, from_dict
from gauss.spark.standing import TaskPlace
from gauss.stream.driver.planning.standing_plans import TablePlan
from gauss.stream.driver.tasks.standing_loop import Clock, EpochLoop
from gauss.stream.driver.tasks.table_inbox import Inbox, open_table, row_inc


class TableLoop(EpochLoop):
    """The loop of one table."""

    def __init__(self, plan: TablePlan, place: TaskPlace) -> None:
        super().__init__(plan.flight, plan.job, plan.sizes, place)
        self._plan = plan
        self._inbox: Inbox | None = None

    def claim(self) -> None:
        plan = self._plan
        claimed = self.client.claim(
            Claim(
                plan.processor,
                "",
                [plan.work.topic],
                [],
                job=self.job,
                task=self.place.task,
                attempt=self.place.attempt,
            )
        )
        self._inbox = Inbox(plan, claimed)
        if claimed.empties and not claimed.joined:
            self._empty(claimed)
        self.generations = {plan.processor: claimed.generation}

    def _empty(self, claimed: Claimed) -> None:
        """Removes the rows that a rebuild writes again. Idempotent: only rows of older records are removed."""
        work = self._plan.work
        below = {row_inc(name, at.inc): at.off for name, at in claimed.empties.items()}
        table = open_table(work).table
        table.store.empty(table.target, Emptying(self._plan.processor, claimed.generation, below), work.settle_s)
        self.client.emptied(Emptied(self._plan.processor, claimed.generation))

    def work(self, grants: dict[str, Grant], clock: Clock) -> None:
        assert self._inbox is not None
        name, grant = next(iter(grants.items()))
        try:
            if not grant.skip:
                self._inbox.empty_into_table(grant)
        except Exception as error:
            self.report_failure(name, error)
            if grant.narrowed and not (isinstance(error, GaussError) and error.retryable):
                self.generations = {}
                return
            raise
        clock.lap("work")
        publish = Publish(
            name, self.generations[name], "", grant.epoch, grant.end, {}, skip=bool(grant.skip), why=grant.skip
        )
        outcome = self.client.publish_all(PublishAll([publish]))[0]
        if outcome.error:
            raise from_dict(outcome.error)
        clock.lap("publish")
