"""A sample third-party package: one framing, one transform."""
