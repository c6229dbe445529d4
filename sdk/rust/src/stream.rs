//! What a connector is told of the stream that it reads or writes, with typed cursors.

use crate::base64;
use crate::json::Json;
use crate::json_form::{field, json_enum, json_struct, tag, tagged, FromJson, ToJson};

json_enum! {
    pub enum SyncMode {
        FullRefresh = "full_refresh",
        Incremental = "incremental",
        Cdc = "cdc",
    }
}

json_struct! {
    pub struct ColumnSchema {
        pub name: String,
        /// Arrow's name, such as `Int64`.
        pub data_type: String,
        pub nullable: bool = true,
    }
}

/// How a destination writes rows.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteMode {
    Append,
    Replace,
    Upsert { primary_key: Vec<String> },
}

impl ToJson for WriteMode {
    fn to_json(&self) -> Json {
        match self {
            WriteMode::Append => Json::String("append".to_string()),
            WriteMode::Replace => Json::String("replace".to_string()),
            WriteMode::Upsert { primary_key } => tag("upsert", Json::object([("primary_key", primary_key.to_json())])),
        }
    }
}

impl FromJson for WriteMode {
    fn from_json(json: &Json) -> Result<Self, String> {
        match tagged(json)? {
            ("append", None) => Ok(WriteMode::Append),
            ("replace", None) => Ok(WriteMode::Replace),
            ("upsert", Some(content)) => Ok(WriteMode::Upsert { primary_key: field(content, "primary_key", None)? }),
            (other, _) => Err(format!("expected append, replace or upsert with its key, found {}", other)),
        }
    }
}

/// The schema of a stream as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub enum SchemaHint {
    Columns(Vec<ColumnSchema>),
    /// A schema-only IPC message.
    ArrowIpcSchema(Vec<u8>),
}

impl ToJson for SchemaHint {
    fn to_json(&self) -> Json {
        match self {
            SchemaHint::Columns(columns) => tag("columns", columns.to_json()),
            SchemaHint::ArrowIpcSchema(schema) => tag("arrow_ipc_schema", Json::String(base64::encode(schema))),
        }
    }
}

impl FromJson for SchemaHint {
    fn from_json(json: &Json) -> Result<Self, String> {
        match tagged(json)? {
            ("columns", Some(columns)) => Ok(SchemaHint::Columns(Vec::from_json(columns)?)),
            ("arrow_ipc_schema", Some(text)) => base64::decode(&String::from_json(text)?)
                .map(SchemaHint::ArrowIpcSchema)
                .ok_or_else(|| "arrow_ipc_schema: expected base64".to_string()),
            (other, _) => Err(format!("expected columns or arrow_ipc_schema, found {}", other)),
        }
    }
}

json_enum! {
    pub enum CursorType {
        Int64 = "int64",
        Utf8 = "utf8",
        TimestampMillis = "timestamp_millis",
        TimestampMicros = "timestamp_micros",
        Decimal = "decimal",
        Json = "json",
    }
}

/// The value of a cursor field, or a connector's own position as JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum CursorValue {
    Null,
    Int64(i64),
    Utf8(String),
    TimestampMillis(i64),
    TimestampMicros(i64),
    Decimal { value: String, scale: i32 },
    Json(Json),
}

impl ToJson for CursorValue {
    fn to_json(&self) -> Json {
        match self {
            CursorValue::Null => Json::String("null".to_string()),
            CursorValue::Int64(value) => tag("int64", value.to_json()),
            CursorValue::Utf8(value) => tag("utf8", value.to_json()),
            CursorValue::TimestampMillis(value) => tag("timestamp_millis", value.to_json()),
            CursorValue::TimestampMicros(value) => tag("timestamp_micros", value.to_json()),
            CursorValue::Decimal { value, scale } => {
                tag("decimal", Json::object([("value", value.to_json()), ("scale", scale.to_json())]))
            }
            CursorValue::Json(value) => tag("json", value.clone()),
        }
    }
}

impl FromJson for CursorValue {
    fn from_json(json: &Json) -> Result<Self, String> {
        Ok(match tagged(json)? {
            ("null", None) => CursorValue::Null,
            ("int64", Some(value)) => CursorValue::Int64(i64::from_json(value)?),
            ("utf8", Some(value)) => CursorValue::Utf8(String::from_json(value)?),
            ("timestamp_millis", Some(value)) => CursorValue::TimestampMillis(i64::from_json(value)?),
            ("timestamp_micros", Some(value)) => CursorValue::TimestampMicros(i64::from_json(value)?),
            ("decimal", Some(content)) => {
                CursorValue::Decimal { value: field(content, "value", None)?, scale: field(content, "scale", None)? }
            }
            ("json", Some(value)) => CursorValue::Json(value.clone()),
            (other, _) => return Err(format!("expected a cursor value, found {}", other)),
        })
    }
}

json_struct! {
    /// The cursor of an incremental or CDC stream.
    pub struct CursorInfo {
        pub cursor_field: String,
        pub cursor_type: CursorType,
        /// Where the last run ended; None before the first.
        pub last_value: Option<CursorValue>,
    }
}

json_struct! {
    pub struct StreamLimits {
        pub max_batch_bytes: u64 = 8 << 20,
        pub max_record_bytes: u64 = 4 << 20,
        pub max_inflight_batches: u32 = 8,
        pub max_parallel_requests: u32 = 1,
    }
}

json_enum! {
    pub enum DataErrorPolicy {
        Skip = "skip",
        Fail = "fail",
        Dlq = "dlq",
    }
}

json_enum! {
    pub enum ColumnPolicy {
        Add = "add",
        Ignore = "ignore",
        Fail = "fail",
    }
}

json_enum! {
    pub enum TypeChangePolicy {
        Coerce = "coerce",
        Fail = "fail",
        Null = "null",
    }
}

json_enum! {
    pub enum NullabilityPolicy {
        Allow = "allow",
        Fail = "fail",
    }
}

json_struct! {
    pub struct SchemaEvolutionPolicy {
        pub new_column: ColumnPolicy = ColumnPolicy::Add,
        pub removed_column: ColumnPolicy = ColumnPolicy::Ignore,
        pub type_change: TypeChangePolicy = TypeChangePolicy::Coerce,
        pub nullability_change: NullabilityPolicy = NullabilityPolicy::Allow,
    }
}

json_struct! {
    pub struct StreamPolicies {
        pub on_data_error: DataErrorPolicy = DataErrorPolicy::Fail,
        pub schema_evolution: SchemaEvolutionPolicy = defaults(),
    }
}

json_struct! {
    pub struct StreamContext {
        pub stream_name: String,
        pub schema: SchemaHint,
        pub sync_mode: SyncMode,
        pub cursor_info: Option<CursorInfo>,
        pub limits: StreamLimits = defaults(),
        pub policies: StreamPolicies = defaults(),
        /// For destinations.
        pub write_mode: Option<WriteMode>,
    }
}

impl StreamContext {
    /// Where the last run ended; None if this is the first.
    pub fn last_value(&self) -> Option<&CursorValue> {
        let last = self.cursor_info.as_ref().and_then(|cursor| cursor.last_value.as_ref());
        last.filter(|value| **value != CursorValue::Null)
    }
}

/// A struct all of whose fields have a default.
fn defaults<T: FromJson>() -> T {
    T::from_json(&Json::Object(Vec::new())).expect("every field has a default")
}
