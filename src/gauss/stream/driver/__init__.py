"""The driver: compiles processors to Spark queries and standing jobs, and runs them."""
