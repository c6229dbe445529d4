//! Opening, validating and discovering.

use crate::errors::{ConnectorError, Result};
use crate::json::Json;
use crate::json_form::{json_enum, json_struct, tag, tagged, FromJson, ToJson};
use crate::stream::{ColumnSchema, SyncMode};

pub const PROTOCOL_VERSION: &str = "1";

/// A connector's config in some encoding.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigBlob {
    Json(Json),
}

impl ConfigBlob {
    /// The value of a key, None if it is absent or null. The error names the key and the types, never a value.
    pub fn get<T: FromJson>(&self, key: &str) -> Result<Option<T>> {
        let ConfigBlob::Json(json) = self;
        crate::json_form::field(json, key, None).map_err(|error| ConnectorError::config("BAD_CONFIG", error))
    }

    /// The value of a key that must be there.
    pub fn need<T: FromJson>(&self, key: &str) -> Result<T> {
        self.get(key)?.ok_or_else(|| ConnectorError::config("BAD_CONFIG", format!("{}: missing; add it", key)))
    }
}

impl ToJson for ConfigBlob {
    fn to_json(&self) -> Json {
        let ConfigBlob::Json(value) = self;
        tag("json", value.clone())
    }
}

impl FromJson for ConfigBlob {
    fn from_json(json: &Json) -> std::result::Result<Self, String> {
        match tagged(json)? {
            ("json", Some(value)) => Ok(ConfigBlob::Json(value.clone())),
            (other, _) => Err(format!("expected a config as json, found {}", other)),
        }
    }
}

json_enum! {
    pub enum Feature {
        ExactlyOnce = "exactly_once",
        Cdc = "cdc",
        SchemaAutoMigrate = "schema_auto_migrate",
        BulkLoadCopy = "bulk_load_copy",
        BulkLoadCopyBinary = "bulk_load_copy_binary",
    }
}

json_struct! {
    pub struct OpenContext {
        pub config: ConfigBlob,
        pub connector_id: String,
        pub connector_version: String,
    }
}

json_struct! {
    pub struct OpenInfo {
        pub protocol_version: String = PROTOCOL_VERSION.to_string(),
        pub features: Vec<Feature> = Vec::new(),
        pub default_max_batch_bytes: u64 = 8 << 20,
    }
}

impl Default for OpenInfo {
    fn default() -> Self {
        OpenInfo {
            protocol_version: PROTOCOL_VERSION.to_string(),
            features: Vec::new(),
            default_max_batch_bytes: 8 << 20,
        }
    }
}

json_enum! {
    pub enum ValidationStatus {
        Success = "success",
        Warning = "warning",
        Failed = "failed",
    }
}

json_struct! {
    pub struct ValidationResult {
        pub status: ValidationStatus,
        pub message: String = String::new(),
    }
}

/// A stream that a source can read.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogStream {
    pub name: String,
    pub schema: Vec<ColumnSchema>,
    pub supported_sync_modes: Vec<SyncMode>,
    pub primary_key: Option<Vec<String>>,
    pub cursor_candidates: Option<Vec<String>>,
    pub estimated_rows: Option<u64>,
}

impl CatalogStream {
    /// A stream without what is optional.
    pub fn new(name: &str, schema: Vec<ColumnSchema>, supported_sync_modes: Vec<SyncMode>) -> Self {
        let (primary_key, cursor_candidates, estimated_rows) = (None, None, None);
        let name = name.to_string();
        CatalogStream { name, schema, supported_sync_modes, primary_key, cursor_candidates, estimated_rows }
    }
}

impl ToJson for CatalogStream {
    /// Keys without a value are left out.
    fn to_json(&self) -> Json {
        let mut fields = vec![
            ("name".to_string(), self.name.to_json()),
            ("schema".to_string(), self.schema.to_json()),
            ("supported_sync_modes".to_string(), self.supported_sync_modes.to_json()),
            ("primary_key".to_string(), self.primary_key.to_json()),
            ("cursor_candidates".to_string(), self.cursor_candidates.to_json()),
            ("estimated_rows".to_string(), self.estimated_rows.to_json()),
        ];
        fields.retain(|(_, value)| *value != Json::Null);
        Json::Object(fields)
    }
}

impl FromJson for CatalogStream {
    fn from_json(json: &Json) -> std::result::Result<Self, String> {
        use crate::json_form::field;
        Ok(CatalogStream {
            name: field(json, "name", None)?,
            schema: field(json, "schema", None)?,
            supported_sync_modes: field(json, "supported_sync_modes", None)?,
            primary_key: field(json, "primary_key", None)?,
            cursor_candidates: field(json, "cursor_candidates", None)?,
            estimated_rows: field(json, "estimated_rows", None)?,
        })
    }
}

json_struct! {
    pub struct Catalog {
        pub streams: Vec<CatalogStream>,
    }
}
