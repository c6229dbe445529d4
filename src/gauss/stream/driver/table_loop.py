"""A standing task that empties a table's inbox: reads, decodes, maps and inserts, range by range."""

from __future__ import annotations

from gauss.contracts.table import Emptying
from gauss.model.errors import GaussError, from_dict
from gauss.spark.standing import Place
from gauss.stream.driver.plan import TablePlan
from gauss.stream.driver.standing import Clock, EpochLoop
from gauss.stream.driver.table_task import Filling, inbox_inc, opened_table
from gauss.stream.protocol import Claim, Claimed, Emptied, Grant, Publish, PublishAll


class TableLoop(EpochLoop):
    """One table."""

    def __init__(self, plan: TablePlan, place: Place) -> None:
        super().__init__(plan.flight, plan.job, plan.sizes, place)
        self._plan = plan
        self._filling: Filling | None = None

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
        self._filling = Filling(plan, claimed)
        if claimed.empties and not claimed.joined:
            self._empty(claimed)
        self.generations = {plan.processor: claimed.generation}

    def _empty(self, claimed: Claimed) -> None:
        """After a rebuild: rows that will be made again go before the first of them comes. Only rows of older records
        are removed, so that doing it twice changes nothing."""
        work = self._plan.work
        below = {inbox_inc(name, at.inc): at.off for name, at in claimed.empties.items()}
        topic = opened_table(work).topic
        topic.store.empty(topic.target, Emptying(self._plan.processor, claimed.generation, below), work.settle_s)
        self.client.emptied(Emptied(self._plan.processor, claimed.generation))

    def work(self, grants: dict[str, Grant], clock: Clock) -> None:
        assert self._filling is not None
        name, grant = next(iter(grants.items()))
        try:
            if not grant.skip:
                self._filling.fill(grant)
        except Exception as error:
            self.trouble(name, error)
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
