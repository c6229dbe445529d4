//! Checkpoints, state scopes, summaries and metrics.

use crate::json::Json;
use crate::json_form::{json_enum, json_struct, tag, tagged, FromJson, ToJson};
use crate::lifecycle::PROTOCOL_VERSION;
use crate::stream::CursorValue;

json_enum! {
    pub enum CheckpointKind {
        Source = "source",
        Dest = "dest",
    }
}

json_struct! {
    /// A source's: batches 1 to `id` were emitted, and the cursor is behind them. A destination's: batches 1 to `id` are
    /// durably committed.
    pub struct Checkpoint {
        pub id: u64,
        pub kind: CheckpointKind,
        pub stream: String,
        pub cursor_field: Option<String>,
        pub cursor_value: Option<CursorValue>,
        pub records_processed: u64 = 0,
        pub bytes_processed: u64 = 0,
    }
}

json_enum! {
    pub enum StateScope {
        Pipeline = "pipeline",
        Stream = "stream",
        ConnectorInstance = "connector_instance",
    }
}

json_struct! {
    #[derive(Default)]
    pub struct ReadSummary {
        pub records_read: u64 = 0,
        pub bytes_read: u64 = 0,
        pub batches_emitted: u64 = 0,
        pub checkpoint_count: u64 = 0,
    }
}

json_struct! {
    pub struct WritePerf {
        pub connect_secs: f64 = 0.0,
        pub flush_secs: f64 = 0.0,
        pub commit_secs: f64 = 0.0,
    }
}

json_struct! {
    #[derive(Default)]
    pub struct WriteSummary {
        pub records_written: u64 = 0,
        pub bytes_written: u64 = 0,
        pub batches_written: u64 = 0,
        pub checkpoint_count: u64 = 0,
        pub perf: Option<WritePerf>,
    }
}

/// The value of a metric and how values are combined.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    Counter(u64),
    Gauge(f64),
    Histogram(f64),
}

impl ToJson for MetricValue {
    fn to_json(&self) -> Json {
        match self {
            MetricValue::Counter(value) => tag("counter", value.to_json()),
            MetricValue::Gauge(value) => tag("gauge", value.to_json()),
            MetricValue::Histogram(value) => tag("histogram", value.to_json()),
        }
    }
}

impl FromJson for MetricValue {
    fn from_json(json: &Json) -> Result<Self, String> {
        match tagged(json)? {
            ("counter", Some(value)) => Ok(MetricValue::Counter(u64::from_json(value)?)),
            ("gauge", Some(value)) => Ok(MetricValue::Gauge(f64::from_json(value)?)),
            ("histogram", Some(value)) => Ok(MetricValue::Histogram(f64::from_json(value)?)),
            (other, _) => Err(format!("expected counter, gauge or histogram, found {}", other)),
        }
    }
}

json_struct! {
    pub struct Metric {
        pub name: String,
        pub value: MetricValue,
        pub labels: Vec<(String, String)> = Vec::new(),
    }
}

json_struct! {
    /// A checkpoint as it travels.
    pub struct CheckpointEnvelope {
        pub protocol_version: String = PROTOCOL_VERSION.to_string(),
        pub connector_id: String,
        pub stream_name: String,
        pub checkpoint: Checkpoint,
    }
}

json_struct! {
    /// A metric as it travels.
    pub struct MetricEnvelope {
        pub protocol_version: String = PROTOCOL_VERSION.to_string(),
        pub connector_id: String,
        pub stream_name: String,
        pub metric: Metric,
    }
}
