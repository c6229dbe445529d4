"""Pipelines from Kafka to ClickHouse as a service: desired state in a store, and workers that run it under leases."""
