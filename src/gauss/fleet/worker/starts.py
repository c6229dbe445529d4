"""The offsets at which a pipeline begins to read."""

from __future__ import annotations

from datetime import datetime

from gauss.clients.kafka.admin import Admin
from gauss.fleet.config.kafka import KafkaConfig


def start_offsets(admin: Admin, kafka: KafkaConfig, partitions: list[int], *, is_first: bool = True) -> dict[int, int]:
    """Where partitions start that were never read. `is_first`: no topic of this name was read before. Partitions that
    were added since, and those of a topic that was made anew, have no record that the config would leave out."""
    if not partitions:
        return {}
    first = admin.earliest(kafka.topic, partitions)
    match kafka.start_offset:
        case "latest" if is_first:
            return admin.stable(kafka.topic, partitions)
        case datetime() as moment:
            ends = admin.stable(kafka.topic, partitions)
            found = admin.at_time(kafka.topic, partitions, int(moment.timestamp() * 1000))
            return {number: ends[number] if (at := found.get(number)) is None else at for number in partitions}
        case dict() as given if is_first:
            return {number: max(given.get(str(number), 0), first[number]) for number in partitions}
    return first
