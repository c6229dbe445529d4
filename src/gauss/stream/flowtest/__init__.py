"""Cases beside a pipeline, run on the real engine and Spark: records in, steps, exact records or rows out."""
