"""The scan language: a typed subset of jq, evaluated over Arrow columns.

text → program       parse.parse_scan(text, live=…, output=…) → contracts.cursor.Program
text → expression    parse.parse(text), typed by check.check(program, kinds | None) for filters
bytes ↔ program      blob.encode_program, blob.decode_program; blob.encode_step, blob.decode_step
a source's fields    kinds.schema_kinds(SourceSchema), kinds.arrow_kinds(pa.Schema) → {dotted path: Kind}
program → Bound      bound.bind(program, kinds | None, capabilities | None); ConfigError is INVALID, Rejected REJECTED

    bound.fields                {dotted path: Kind} to decode; kinds.DECODED gives the field type of a kind
    bound.toll(batch)           fuel of a batch of decoded fields, known before it runs
    bound.run(batch)            (results as a RecordBatch, indexes of kept rows or None for all)
    bound.columns               {name: Kind} of the results; None: the candidates unchanged
    bound.static_cost           minimum fuel per candidate

fuel                 fuel.Meter(max_item, max_scan).admit(costs) → (rows that may run, Limit | None)
                     fuel.Unread().admit(…): candidates without expressions
conditions           arrow.compile_filter

Batches of decoded fields have flat columns named by dotted path, e.g. `price.bid`. Modules are imported by name:
`parse` and `check` need neither pyarrow nor Spark.
"""
