"""The language of scans: a jq subset, one typed form, three backends with one answer.

text → program       parse.parse_scan(text, live=…, output=…) → contracts.cursor.Program
text → expression    parse.parse(text), typed by check.check(program, kinds | None) for filters
bytes ↔ program      blob.encode_program, blob.decode_program; blob.encode_step, blob.decode_step
a source's fields    kinds.schema_kinds(SourceSchema), kinds.arrow_kinds(pa.Schema) → {dotted path: Kind}
program → Bound      bound.bind(program, kinds | None, capabilities | None); ConfigError is INVALID, Rejected REJECTED

    bound.fields                {dotted path: Kind} to decode; kinds.DECODED gives the field type of a kind
    bound.costs(batch)          int64 fuel per row of decoded fields, before anything runs; bound.row_cost(row)
    bound.run(batch)            (results as a RecordBatch, indexes kept or None for all); bound.row(row) → row | None
    bound.columns               {name: Kind} of the results, None: the candidates as they are
    bound.result_schema(s)      the Arrow schema of results for batches of schema `s`
    bound.static_cost           the least that a candidate costs

fuel                 fuel.Meter(max_item, max_scan).admit(costs) → (rows that may run, Limit | None)
                     fuel.unread(rows, nbytes): candidates that no expression looks at
single expressions   python.compile_filter / compile_row, arrow.compile_filter / compile_column, spark.…
on Spark             spark.run(bound, frame, column) → DataFrame

Batches of decoded fields have flat columns named by dotted path, e.g. `price.bid`. Modules are imported by name:
`parse` and `check` need neither pyarrow nor Spark.
"""
