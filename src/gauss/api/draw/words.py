"""Labels of the nodes, shared by all drawings."""

from __future__ import annotations

from gauss.contracts.processor import Where
from gauss.model.units import counted, human_bytes
from gauss.stream.graph import ProcessorNode, TopicNode


def topic_words(topic: TopicNode) -> str:
    """`memory · 50,000 records · block · offset, latest`"""
    bounds = []
    if topic.capacity.records is not None:
        bounds.append(counted(topic.capacity.records, "record"))
    if topic.capacity.bytes is not None:
        bounds.append(human_bytes(topic.capacity.bytes))
    modes = ", ".join(topic.read_modes)
    return " · ".join([topic.storage, " or ".join(bounds) or "unbounded", topic.write_full, modes])


def processor_words(processor: ProcessorNode) -> str:
    """`filter · active, stateless · on Spark, hosted · in the task of clean`"""
    place = "on Spark" if processor.where is Where.SPARK else "in the engine"
    how = f", {processor.runs}" if processor.runs and processor.where is Where.SPARK else ""
    words = [processor.plugin, ", ".join(processor.traits), place + how]
    if processor.query not in ("", processor.name):
        words.append(f"in the task of {processor.query}")
    return " · ".join(words)


def address_words(processor: ProcessorNode) -> str:
    """`listens on 127.0.0.1:9100`, or nothing."""
    if processor.address is None:
        return ""
    verb = "listens on" if processor.address.listens else "connects to"
    return f"{verb} {processor.address.host}:{processor.address.port}"
