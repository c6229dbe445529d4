"""Spark looks for `pyspark_<name>.DefaultSource` when it is asked for `format("gauss")`, in every session."""

from gauss.stream.driver.queries.source import GaussDataSource as DefaultSource

__all__ = ["DefaultSource"]
