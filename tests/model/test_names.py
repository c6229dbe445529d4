"""Names of Gauss's own topics and processors."""

from __future__ import annotations

from gauss.model.names import (
    DEAD_TOPIC,
    inserted_topic,
    is_internal,
    is_orders_topic,
    is_retry_topic,
    is_table_processor,
    orders_topic,
    retry_topic,
    retrying_processor,
    rows_format,
    table_processor,
)


def test_made_names_are_internal_and_names_of_a_config_are_not() -> None:
    made = [DEAD_TOPIC, retry_topic("p"), orders_topic("p"), table_processor("t"), rows_format("t")]
    assert all(map(is_internal, made))
    assert not is_internal("quotes")


def test_retry_topic_tells_its_processor() -> None:
    assert retrying_processor(retry_topic("p")) == "p"
    assert retrying_processor(retry_topic("p", "trades")) == "p"
    assert retrying_processor("quotes") == ""
    assert is_retry_topic(retry_topic("p", "trades"))
    assert not is_retry_topic(orders_topic("p"))


def test_table_processor_tells_its_topic() -> None:
    assert inserted_topic(table_processor("quotes")) == "quotes"
    assert inserted_topic("copy") == ""
    assert is_table_processor(table_processor("quotes"))
    assert is_orders_topic(orders_topic("copy"))
    assert not is_orders_topic("orders")
