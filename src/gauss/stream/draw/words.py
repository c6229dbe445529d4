"""The few words under each node, the same in every drawing."""

from __future__ import annotations

from gauss.contracts.processor import Where
from gauss.model.units import human_bytes
from gauss.stream.graph import ProcessorNode, TopicNode


def topic_words(topic: TopicNode) -> str:
    """`memory · holds 50,000 records · block`"""
    bounds = []
    if topic.capacity.records is not None:
        bounds.append("1 record" if topic.capacity.records == 1 else f"{topic.capacity.records:,} records")
    if topic.capacity.bytes is not None:
        bounds.append(human_bytes(topic.capacity.bytes))
    return " · ".join([topic.storage, " or ".join(bounds) or "unbounded", topic.write_full])


def processor_words(processor: ProcessorNode) -> str:
    """`sql · active, stateless · on Spark`"""
    place = "on Spark" if processor.where is Where.SPARK else "in the engine"
    return " · ".join([processor.plugin, ", ".join(processor.traits), place])


def address_words(processor: ProcessorNode) -> str:
    """`listens on 127.0.0.1:9100`, or nothing."""
    if processor.address is None:
        return ""
    verb = "listens on" if processor.address.listens else "connects to"
    return f"{verb} {processor.address.host}:{processor.address.port}"
