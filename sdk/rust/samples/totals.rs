//! A destination that adds up columns: `{"rows": …, "sums": {column: …}}` as the state `totals` of the stream. A run that
//! follows a crash adds the rows after the last checkpoint once more: at-least-once.

use gauss_connector::prelude::*;
use std::ops::Add;

const KEY: &str = "totals";

struct Totals {
    rows: u64,
    sums: Json,
}

gauss_destination!(Totals);

impl Connector for Totals {
    fn open(_context: &OpenContext) -> Result<Self> {
        Ok(Totals { rows: 0, sums: Json::object([]) })
    }
}

impl Destination for Totals {
    fn run_write(&mut self, stream: &StreamContext, mut run: WriteRun) -> Result<WriteSummary> {
        if stream.sync_mode != SyncMode::FullRefresh {
            self.load()?;
        }
        while let Some(batch) = run.next_batch()? {
            self.add(&batch);
            if run.due() {
                self.store()?;
                run.committed()?;
            }
        }
        self.store()?;
        run.committed()?;
        Ok(run.summary())
    }
}

impl Totals {
    fn add(&mut self, batch: &Batch) {
        self.rows += batch.rows as u64;
        for column in &batch.columns {
            let before = self.sums.get(column.name);
            let sum = match column.data_type {
                // In 128 bits, which sums of 64 do not exceed.
                DataType::Int64 => {
                    plus::<i128>(before, (0..batch.rows).filter_map(|n| column.i64(n)).map(i128::from).sum())
                }
                DataType::Float64 => plus::<f64>(before, (0..batch.rows).filter_map(|n| column.f64(n)).sum()),
                _ => continue,
            };
            self.sums.set(column.name, sum);
        }
    }

    fn store(&self) -> Result<()> {
        let totals = Json::object([("rows", self.rows.to_json()), ("sums", self.sums.clone())]);
        host::state_put(StateScope::Stream, KEY, totals.to_string().as_bytes())
    }

    fn load(&mut self) -> Result<()> {
        if let Some(text) = host::state_get(StateScope::Stream, KEY)? {
            let bad = |error| ConnectorError::data("BAD_STATE", format!("the state totals can't be read: {}", error));
            let totals = Json::parse(&text).map_err(bad)?;
            self.rows = totals.get("rows").map_or(Ok(0), u64::from_json).map_err(bad)?;
            self.sums = totals.get("sums").cloned().unwrap_or_else(|| Json::object([]));
        }
        Ok(())
    }
}

fn plus<T: FromJson + ToJson + Add<Output = T>>(before: Option<&Json>, added: T) -> Json {
    // A sum that is not finite is null in JSON, and stays so.
    match before {
        None => added.to_json(),
        Some(json) => T::from_json(json).map_or(Json::Null, |sum| (sum + added).to_json()),
    }
}
