"""From a format's schema to a table's, and from decoded rows to its columns."""
