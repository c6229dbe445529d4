//! A run of one stream: batches, checkpoints by thresholds, totals.

use crate::arrow::{encode, Batch, Column};
use crate::errors::Result;
use crate::host;
use crate::json::Json;
use crate::json_form::{json_struct, FromJson};
use crate::lifecycle::{ConfigBlob, PROTOCOL_VERSION};
use crate::progress::*;
use crate::stream::{CursorValue, StreamContext};

json_struct! {
    /// How much may lie between two checkpoints: the key `checkpoint` of a config. A module has no clock, so that `secs`
    /// has no effect here.
    pub struct Thresholds {
        pub bytes: u64 = 64 << 20,
        pub rows: u64 = 500_000,
    }
}

impl Thresholds {
    pub fn of(config: &ConfigBlob) -> Result<Self> {
        let given: Option<Thresholds> = config.get("checkpoint")?;
        Ok(given.unwrap_or_else(|| Self::from_json(&Json::Object(Vec::new())).expect("every field has a default")))
    }
}

/// What sources and destinations count.
struct Totals {
    connector: String,
    stream: String,
    cursor_field: Option<String>,
    batches: u64,
    records: u64,
    bytes: u64,
    checkpoints: u64,
    thresholds: Thresholds,
    /// Records and bytes of the last checkpoint.
    marked: (u64, u64),
}

impl Totals {
    fn new(connector: &str, stream: &StreamContext, thresholds: Thresholds) -> Self {
        let cursor_field = stream.cursor_info.as_ref().map(|cursor| cursor.cursor_field.clone());
        let (connector, stream) = (connector.to_string(), stream.stream_name.clone());
        let (batches, records, bytes, checkpoints, marked) = (0, 0, 0, 0, (0, 0));
        Totals { connector, stream, cursor_field, batches, records, bytes, checkpoints, thresholds, marked }
    }

    fn add(&mut self, rows: usize, bytes: usize) {
        self.batches += 1;
        self.records += rows as u64;
        self.bytes += bytes as u64;
    }

    fn due(&self) -> bool {
        let (rows, bytes) = (self.records - self.marked.0, self.bytes - self.marked.1);
        rows >= self.thresholds.rows || bytes >= self.thresholds.bytes
    }

    fn checkpoint(&mut self, kind: CheckpointKind, cursor_value: Option<CursorValue>) -> Result<()> {
        let checkpoint = Checkpoint {
            id: self.batches,
            kind,
            stream: self.stream.clone(),
            cursor_field: cursor_value.as_ref().and_then(|_| self.cursor_field.clone()),
            cursor_value,
            records_processed: self.records,
            bytes_processed: self.bytes,
        };
        host::checkpoint(&CheckpointEnvelope {
            protocol_version: PROTOCOL_VERSION.to_string(),
            connector_id: self.connector.clone(),
            stream_name: self.stream.clone(),
            checkpoint,
        })?;
        self.checkpoints += 1;
        self.marked = (self.records, self.bytes);
        host::report_progress(self.records, self.bytes)
    }

    fn metric(&self, name: &str, value: MetricValue) -> Result<()> {
        host::metric(&MetricEnvelope {
            protocol_version: PROTOCOL_VERSION.to_string(),
            connector_id: self.connector.clone(),
            stream_name: self.stream.clone(),
            metric: Metric { name: name.to_string(), value, labels: Vec::new() },
        })
    }
}

/// What a source does with its stream.
pub struct ReadRun {
    totals: Totals,
    cursor: Option<CursorValue>,
}

impl ReadRun {
    /// Checkpoints carry the cursor of the last run until there is a newer one.
    pub fn new(connector: &str, stream: &StreamContext, thresholds: Thresholds) -> Self {
        ReadRun { totals: Totals::new(connector, stream, thresholds), cursor: stream.last_value().cloned() }
    }

    /// Emits a batch; `cursor` is the position behind it, from which a later run would go on. Makes a checkpoint if one
    /// is due. Fails with CANCELLED when the run is to end: return that error.
    pub fn emit(&mut self, columns: &[Column], cursor: Option<CursorValue>) -> Result<()> {
        let ipc = encode(columns)?;
        host::emit_batch(&ipc)?;
        self.totals.add(columns[0].rows(), ipc.len());
        if self.totals.cursor_field.is_some() {
            self.cursor = cursor.or_else(|| self.cursor.take());
        }
        host::report_progress(self.totals.records, self.totals.bytes)?;
        if self.totals.due() {
            self.checkpoint()
        } else {
            Ok(())
        }
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.totals.checkpoint(CheckpointKind::Source, self.cursor.clone())
    }

    pub fn metric(&self, name: &str, value: MetricValue) -> Result<()> {
        self.totals.metric(name, value)
    }

    /// Makes the last checkpoint and returns the summary.
    pub fn finish(mut self) -> Result<ReadSummary> {
        self.checkpoint()?;
        Ok(ReadSummary {
            records_read: self.totals.records,
            bytes_read: self.totals.bytes,
            batches_emitted: self.totals.batches,
            checkpoint_count: self.totals.checkpoints,
        })
    }
}

/// What a destination does with its stream.
pub struct WriteRun {
    totals: Totals,
    buf: Vec<u8>,
    max_bytes: usize,
}

impl WriteRun {
    pub fn new(connector: &str, stream: &StreamContext, thresholds: Thresholds) -> Self {
        let max_bytes = stream.limits.max_batch_bytes as usize + host::BATCH_OVERHEAD_BYTES;
        WriteRun { totals: Totals::new(connector, stream, thresholds), buf: Vec::new(), max_bytes }
    }

    /// The next batch; None after the last.
    pub fn next_batch(&mut self) -> Result<Option<Batch<'_>>> {
        if !host::next_batch(&mut self.buf, self.max_bytes)? {
            return Ok(None);
        }
        let batch = Batch::read(&self.buf)?;
        self.totals.add(batch.rows, self.buf.len());
        Ok(Some(batch))
    }

    /// Whether enough has come since the last commit for another.
    pub fn due(&self) -> bool {
        self.totals.due()
    }

    /// Says that every batch so far is durably committed. Called after the commit, never before.
    pub fn committed(&mut self) -> Result<()> {
        self.totals.checkpoint(CheckpointKind::Dest, None)
    }

    pub fn metric(&self, name: &str, value: MetricValue) -> Result<()> {
        self.totals.metric(name, value)
    }

    pub fn summary(&self) -> WriteSummary {
        WriteSummary {
            records_written: self.totals.records,
            bytes_written: self.totals.bytes,
            batches_written: self.totals.batches,
            checkpoint_count: self.totals.checkpoints,
            perf: None,
        }
    }
}
