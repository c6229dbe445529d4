"""`python -m gauss.clients.kafka.owner`: the process that owns a local Kafka broker."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gauss.clients.endpoint import Endpoint, Identity
from gauss.clients.kafka.broker import Broker, new_cluster_id
from gauss.clients.kafka.broker_properties import HOST, Ports
from gauss.clients.owner import own
from gauss.process.ports import free_port


class EmbeddedKafka:
    """The broker in `DIRECTORY/broker`, formatted at the first start."""

    def __init__(self) -> None:
        self._broker: Broker | None = None

    def start(self, directory: Path, known: Identity) -> Endpoint:
        self._broker = Broker(directory / "broker", {1: Ports(known.port, free_port())})
        self._broker.create(new_cluster_id())
        self._broker.start()
        return Endpoint("kafka", HOST, known.port, "", "", "", os.getpid())

    def died(self) -> str:
        return "" if self._broker is None else self._broker.died()

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.stop()


if __name__ == "__main__":
    sys.exit(own(EmbeddedKafka(), sys.argv[1:]))
