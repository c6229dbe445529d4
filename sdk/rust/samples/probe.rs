//! A source and destination for the tests of the kit. Its config says what it does.

use gauss_connector::json_form::field;
use gauss_connector::prelude::*;

struct Probe {
    config: ConfigBlob,
}

gauss_connector!(Probe);

impl Connector for Probe {
    fn open(context: &OpenContext) -> Result<Self> {
        Ok(Probe { config: context.config.clone() })
    }

    /// Reads a value of a type from `text`, and returns it as it writes it.
    fn validate(&mut self, config: &ConfigBlob) -> Result<ValidationResult> {
        let (kind, text): (String, String) = (config.need("type")?, config.need("text")?);
        let written = Json::parse(text.as_bytes()).and_then(|json| written_again(&kind, &json));
        Ok(match written {
            Ok(message) => ValidationResult { status: ValidationStatus::Success, message },
            Err(message) => ValidationResult { status: ValidationStatus::Failed, message },
        })
    }

    fn close(&mut self) -> Result<()> {
        match self.config.get::<String>("close_error")? {
            Some(code) => Err(ConnectorError::internal(&code, "close was told to fail")),
            None => Ok(()),
        }
    }
}

fn again<T: ToJson + FromJson>(json: &Json) -> std::result::Result<String, String> {
    T::from_json(json).map(|value| value.to_json().to_string())
}

fn written_again(kind: &str, json: &Json) -> std::result::Result<String, String> {
    match kind {
        "json" => Ok(json.to_string()),
        "catalog" => again::<Catalog>(json),
        "checkpoint" => again::<gauss_connector::progress::CheckpointEnvelope>(json),
        "cursor" => again::<CursorValue>(json),
        "error" => again::<ConnectorError>(json),
        "metric" => again::<gauss_connector::progress::MetricEnvelope>(json),
        "metric_value" => again::<MetricValue>(json),
        "open_context" => again::<OpenContext>(json),
        "open_info" => again::<OpenInfo>(json),
        "read_summary" => again::<ReadSummary>(json),
        "schema" => again::<SchemaHint>(json),
        "stream_context" => again::<StreamContext>(json),
        "validation" => again::<ValidationResult>(json),
        "write_mode" => again::<WriteMode>(json),
        "write_summary" => again::<WriteSummary>(json),
        "constructor" => constructed(json).map(|error| error.to_json().to_string()),
        other => Err(format!("no type {}", other)),
    }
}

/// The error that the constructor of a category makes.
fn constructed(json: &Json) -> std::result::Result<ConnectorError, String> {
    let category: ErrorCategory = field(json, "category", None)?;
    let (code, message): (String, String) = (field(json, "code", None)?, field(json, "message", None)?);
    let made = match category {
        ErrorCategory::Config => ConnectorError::config(&code, message),
        ErrorCategory::Auth => ConnectorError::auth(&code, message),
        ErrorCategory::Permission => ConnectorError::permission(&code, message),
        ErrorCategory::RateLimit => ConnectorError::rate_limit(&code, message, field(json, "retry_after_ms", None)?),
        ErrorCategory::TransientNetwork => ConnectorError::transient_network(&code, message),
        ErrorCategory::TransientDb => ConnectorError::transient_db(&code, message),
        ErrorCategory::Data => ConnectorError::data(&code, message),
        ErrorCategory::Schema => ConnectorError::schema(&code, message),
        ErrorCategory::Internal => ConnectorError::internal(&code, message),
    };
    let state: Option<CommitState> = field(json, "commit_state", None)?;
    Ok(match state {
        Some(state) => made.with_commit_state(state),
        None => made,
    })
}

impl Source for Probe {
    fn discover(&mut self) -> Result<Catalog> {
        Ok(Catalog { streams: Vec::new() })
    }

    /// Emits the batches of `batches` (columns of `{name, type, required, values}`), after what `do` says.
    fn run_read(&mut self, _stream: &StreamContext, mut run: ReadRun) -> Result<ReadSummary> {
        match self.config.get::<String>("do")?.as_deref() {
            Some("loop") => loop {
                std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
            },
            Some("panic") => panic!("as told"),
            Some("garbage") => host::emit_batch(b"this is no batch")?,
            Some("wrong side") => host::next_batch(&mut Vec::new(), 1000).map(|_| ())?,
            Some("long key") => host::state_put(StateScope::Stream, &"k".repeat(2000), b"v")?,
            Some("large state") => host::state_put(StateScope::Stream, "k", &vec![0; host::STATE_BYTES + 1])?,
            Some("state") => self.copy_state()?,
            _ => {}
        }
        let batches: Option<Vec<Vec<Json>>> = self.config.get("batches")?;
        for batch in batches.unwrap_or_default() {
            let columns = batch.iter().map(column).collect::<std::result::Result<Vec<_>, _>>();
            run.emit(&columns.map_err(|error| ConnectorError::config("BAD_CONFIG", error))?, None)?;
        }
        run.finish()
    }
}

fn column(json: &Json) -> std::result::Result<Column, String> {
    let (name, kind): (String, String) = (field(json, "name", None)?, field(json, "type", None)?);
    let made = match kind.as_str() {
        "int64" => Column::int64(&name, field::<Vec<Option<i64>>>(json, "values", None)?),
        "float64" => Column::float64(&name, field::<Vec<Option<f64>>>(json, "values", None)?),
        "utf8" => Column::utf8(&name, field::<Vec<Option<String>>>(json, "values", None)?),
        _ => Column::bool(&name, field::<Vec<Option<bool>>>(json, "values", None)?),
    };
    Ok(if field(json, "required", Some(false))? { made.required() } else { made })
}

impl Probe {
    /// Copies the state `from` to `to` through a buffer of `buffer_bytes`.
    fn copy_state(&self) -> Result<()> {
        let (from, to): (String, String) = (self.config.need("from")?, self.config.need("to")?);
        let mut buf = Vec::with_capacity(self.config.get("buffer_bytes")?.unwrap_or(0u32) as usize);
        if host::state_get_into(StateScope::Stream, &from, &mut buf)? {
            host::state_put(StateScope::Stream, &to, &buf)?;
        }
        Ok(())
    }
}

impl Destination for Probe {
    /// Writes each batch again, from the values that it has read, as a state with the batch's number as key.
    fn run_write(&mut self, stream: &StreamContext, mut run: WriteRun) -> Result<WriteSummary> {
        if self.config.get("raw")? == Some(true) {
            return self.run_raw(stream);
        }
        let mut number = 0;
        while let Some(batch) = run.next_batch()? {
            number += 1;
            let ipc = gauss_connector::arrow::encode(&copy(&batch))?;
            host::state_put(StateScope::Stream, &number.to_string(), &ipc)?;
        }
        run.committed()?;
        Ok(run.summary())
    }
}

impl Probe {
    /// Stores batches as they come, through a buffer of `buffer_bytes` for each, of which none may exceed `max_bytes`.
    fn run_raw(&self, stream: &StreamContext) -> Result<WriteSummary> {
        let size = self.config.get("buffer_bytes")?.unwrap_or(0u32) as usize;
        let most = self.config.get("max_bytes")?.unwrap_or(stream.limits.max_batch_bytes) as usize;
        let mut summary = WriteSummary::default();
        loop {
            let mut buf = Vec::with_capacity(size);
            if !host::next_batch(&mut buf, most)? {
                return Ok(summary);
            }
            summary.batches_written += 1;
            host::state_put(StateScope::Stream, &summary.batches_written.to_string(), &buf)?;
        }
    }
}

/// The columns that the kit reads, and for others whether a row is null is not known: they are text of their type.
fn copy(batch: &Batch) -> Vec<Column> {
    let rows = || 0..batch.rows;
    let columns = batch.columns.iter().map(|column| {
        let made = match column.data_type {
            DataType::Int64 => Column::int64(column.name, rows().map(|row| column.i64(row))),
            DataType::Float64 => Column::float64(column.name, rows().map(|row| column.f64(row))),
            DataType::Utf8 => Column::utf8(column.name, rows().map(|row| column.str(row))),
            DataType::Bool => Column::bool(column.name, rows().map(|row| column.bool(row))),
            DataType::Other(kind) => Column::utf8(column.name, rows().map(|_| Some(format!("type {}", kind)))),
        };
        if column.nullable {
            made
        } else {
            made.required()
        }
    });
    columns.collect()
}
