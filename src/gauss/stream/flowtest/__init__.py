"""Test cases of a pipeline, run on the real engine and Spark: input records and steps, expected records or rows."""
