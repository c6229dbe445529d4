"""Starts sources and sinks, and retries those whose port is still taken after a restart."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from gauss.contracts.edge import Edge, EdgeStatus
from gauss.model.closing import Closing, scope
from gauss.model.errors import GaussError
from gauss.stream.graph import ProcessorNode

log = logging.getLogger(__name__)


@dataclass
class Listening:
    """One source or sink."""

    node: ProcessorNode
    build: Callable[[EdgeStatus], Edge]
    built: Closing = field(default_factory=Closing)
    """Collects the formats and framings that it builds, to be closed with the engine."""
    status: EdgeStatus = field(default_factory=EdgeStatus)
    edge: Edge | None = None

    def start(self, *, restarted: bool, stopping: threading.Event) -> None:
        """Starts it or raises the reason. After a restart of the engine it is retried in the background instead, since
        the previous engine may still hold the port."""
        try:
            self._try()
        except GaussError:
            if not restarted:
                raise
            name = f"start-{self.node.name}"
            threading.Thread(target=self._keep_trying, args=(stopping,), name=name, daemon=True).start()

    def _try(self) -> None:
        with scope(self.built):
            edge = self.build(self.status)
        try:
            edge.start()
        except BaseException:
            edge.close()
            raise
        self.edge = edge
        if self.status.state == "starting":
            self.status.state = "running"

    def _keep_trying(self, stopping: threading.Event) -> None:
        pause, said = 0.2, self.status.detail
        while not stopping.wait(pause):
            try:
                self._try()
                if self.status.detail == said:
                    self.status.detail = ""
                return
            except GaussError as error:
                said = error.message
                self.status.state, self.status.detail = "waiting", said
                log.warning("%s: %s; retrying", self.node.name, error.message)
            pause = min(pause * 2, 5.0)


def drain(edges: list[Listening], seconds: float) -> None:
    """Drains edges in parallel."""
    threads = [
        threading.Thread(target=each.edge.drain, args=(seconds,), name=f"drain-{each.node.name}", daemon=True)
        for each in edges
        if each.edge is not None
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 1)
