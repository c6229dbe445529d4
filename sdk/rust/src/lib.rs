//! Gauss connectors as WebAssembly modules: protocol v1 without dependencies, for `wasm32-unknown-unknown`.
//!
//! A connector implements `Source` or `Destination` and is exported by `gauss_source!` or `gauss_destination!`. See
//! `samples/numbers.rs` and `samples/totals.rs`.

pub mod arrow;
pub mod base64;
pub mod errors;
pub mod export;
pub mod host;
pub mod json;
pub mod json_form;
pub mod lifecycle;
pub mod progress;
pub mod run;
pub mod stream;

/// What a connector needs.
pub mod prelude {
    pub use crate::arrow::{Batch, Column, DataType, Text};
    pub use crate::errors::*;
    pub use crate::export::{Connector, Destination, Source};
    pub use crate::host::{self, LogLevel};
    pub use crate::json::Json;
    pub use crate::json_form::{FromJson, ToJson};
    pub use crate::lifecycle::*;
    pub use crate::progress::*;
    pub use crate::run::{ReadRun, Thresholds, WriteRun};
    pub use crate::stream::*;
    pub use crate::{gauss_connector, gauss_destination, gauss_source};
    pub use std::fmt::Write as _;
}
