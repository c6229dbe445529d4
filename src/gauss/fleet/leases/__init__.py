"""Leases of slots, and claims of partitions: who may run a replica, and who may commit which range."""
