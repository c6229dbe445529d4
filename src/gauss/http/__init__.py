"""HTTP servers: connections with limits, bodies with limits, one shape of errors, Prometheus text.

Nothing here knows a run or a database.
"""
