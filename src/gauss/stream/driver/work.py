"""All work of a pipeline on Spark: streaming queries and the standing jobs of hosted chains and tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from gauss.clients.engine.client import EngineClient
from gauss.clients.engine.driver_messages import DriverCommand, DriverSynced, QueryStatus
from gauss.contracts.processor import Where
from gauss.model.paths import DataDir
from gauss.spark.session import cores_of
from gauss.stream.child import assignment
from gauss.stream.driver.jobs.hosted_units import HostedGroup
from gauss.stream.driver.jobs.table_unit import TableUnit
from gauss.stream.driver.jobs.unit import StandingUnit
from gauss.stream.driver.planning.chains import find_chains
from gauss.stream.driver.planning.shared_reads import find_teams, is_hosted
from gauss.stream.driver.supervised import Context, Supervised
from gauss.stream.driver.tasks.table_reads import with_orders
from gauss.stream.graph import build_graph, table_queries

if TYPE_CHECKING:
    from gauss.spark.session import Spark

Piece = Supervised | HostedGroup


class Work:
    """The queries and standing jobs of a run."""

    def __init__(self, spark: Spark, client: EngineClient, data_dir: DataDir) -> None:
        given = assignment(data_dir)
        pipeline = given.pipeline
        flight = str(pipeline.engine.token_file or data_dir.flight_json)
        graph = build_graph(pipeline)
        ordered = with_orders(pipeline, given.base_dir, data_dir)
        context = Context(spark, client, pipeline, data_dir, flight)
        reading = Context(spark, client, ordered, data_dir, flight)
        cores = cores_of(pipeline.spark.master)
        chains = find_chains(pipeline, graph)
        names = {node.name for node in graph.on(Where.SPARK)}
        self.pieces: list[Piece] = [
            HostedGroup(reading, chains, team, cores) for team in find_teams(ordered, graph, chains)
        ]
        queries = [entry for entry in ordered.processors if entry.name in names and not is_hosted(entry)]
        if queries:
            from gauss.stream.driver.queries.query import Query  # lazy: imports Spark SQL

            self.pieces += [Query(reading, entry) for entry in queries]
        self.pieces += [TableUnit(context, entry, cores) for entry in table_queries(pipeline)]
        self._client = client

    def begin(self) -> None:
        """Starts all pieces, up to four at a time."""
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda piece: piece.tick(), self.pieces))

    def close(self) -> None:
        """Stops all pieces in parallel."""
        with ThreadPoolExecutor(max(len(self.pieces), 1)) as pool:
            list(pool.map(lambda piece: piece.close(), self.pieces))

    def tick(self) -> None:
        for piece in self.pieces:
            piece.tick()

    def statuses(self) -> list[QueryStatus]:
        return [status for piece in self.pieces for status in piece.statuses()]

    def receive(self, reply: DriverSynced) -> None:
        """Passes the engine's reply to the pieces it concerns."""
        for piece in self.pieces:
            if isinstance(piece, HostedGroup):
                piece.receive(reply.news, {name: why for name, why in reply.apart.items() if name in piece.names})
            elif isinstance(piece, StandingUnit):
                piece.receive(reply.news)
        for command in reply.commands:
            self._execute(command)

    def _execute(self, command: DriverCommand) -> None:
        for piece in self.pieces:
            if command.processor in piece.names:
                piece.execute(command)
