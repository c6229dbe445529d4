"""Writes records into a table of an outside system, exactly once. Free of Spark and of the stream engine."""
