"""The store: pipelines, their configs and desired state, leases, claims, tokens and the audit log."""
