"""The HTTP API of the fleet: pipelines, their configs and state, workers, tokens."""
