//! A source of the numbers from 1 to `rows`, in batches of `batch_rows`. Incremental by the cursor `n`.

use gauss_connector::prelude::*;

struct Numbers {
    rows: i64,
    batch_rows: i64,
}

gauss_source!(Numbers);

impl Connector for Numbers {
    fn open(context: &OpenContext) -> Result<Self> {
        let rows = context.config.need("rows")?;
        let batch_rows = context.config.get("batch_rows")?.unwrap_or(1_000);
        if rows < 0 || batch_rows < 1 {
            return Err(ConnectorError::config("BAD_CONFIG", "rows is at least 0 and batch_rows at least 1"));
        }
        Ok(Numbers { rows, batch_rows })
    }
}

impl Source for Numbers {
    fn discover(&mut self) -> Result<Catalog> {
        let schema = columns(1, 0).iter().map(Column::schema).collect();
        let mut stream = CatalogStream::new("numbers", schema, vec![SyncMode::FullRefresh, SyncMode::Incremental]);
        stream.primary_key = Some(vec!["n".to_string()]);
        stream.cursor_candidates = Some(vec!["n".to_string()]);
        stream.estimated_rows = Some(self.rows as u64);
        Ok(Catalog { streams: vec![stream] })
    }

    fn run_read(&mut self, stream: &StreamContext, mut run: ReadRun) -> Result<ReadSummary> {
        let mut done = match stream.last_value() {
            None => 0,
            Some(CursorValue::Int64(last)) => *last,
            Some(_) => return Err(ConnectorError::config("BAD_CURSOR", "the cursor n is an int64")),
        };
        let fitting = (stream.limits.max_batch_bytes / 64).max(1); // a row takes less than 64 bytes
        let batch_rows = self.batch_rows.min(fitting as i64);
        while done < self.rows {
            let last = self.rows.min(done.saturating_add(batch_rows));
            run.emit(&columns(done + 1, last), Some(CursorValue::Int64(last)))?;
            done = last;
        }
        run.finish()
    }
}

/// The numbers with their halves (some null), a text (some empty, some null) and whether they are even (some null).
fn columns(first: i64, last: i64) -> Vec<Column> {
    let each = || first..=last;
    let write = |n, text: &mut Text| if n % 5 == 0 { Ok(()) } else { write!(text, "№ {} 🦀", n) };
    vec![
        Column::int64("n", each().map(Some)).required(),
        Column::float64("half", each().map(|n| (n % 3 != 0).then(|| n as f64 / 2.0))),
        Column::utf8_with("text", each().map(|n| (n % 7 != 0).then_some(n)), write),
        Column::bool("even", each().map(|n| (n % 11 != 0).then(|| n % 2 == 0))),
    ]
}
