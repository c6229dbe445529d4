"""Gauss: records come in, live in topics, pass through Spark and go out."""

__version__ = "0.1.0"
