"""From records of a topic to rows of a table: types inferred from samples, proposals, previews."""
