"""The conformance kit: tries a connector, class or `.wasm`, on every rule of the protocol.

- `case`: cases, their registry and results. `cases`: the cases themselves, by subject.
- `runner`: runs the cases of a connector.
- `settings`, `target`: the connector under test, and how the kit reaches its system.
- `bench`, `source_bench`, `destination_bench`: what cases work with.
- `generator`, `collector`: the kit's own source and destination, which stand against the connector under test.
- `datasets`, `compare`: rows, and how they are compared with what became of them.
- `watch`, `kit_sync`, `scratch`: record what a connector does.
- `crash`, `child`: syncs in processes that are killed.
- `proxy`: a TCP proxy that loses answers.
"""
