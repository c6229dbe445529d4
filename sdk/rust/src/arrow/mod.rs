//! Arrow IPC streams of one batch: columns of int64, float64, utf8 and bool are written and read, with nulls. Columns of
//! other types are read as `DataType::Other`, without their values.

mod flat;
mod read;
mod write;

pub use read::{Batch, ColumnView};
pub use write::{encode, Column, Text};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataType {
    Int64,
    Float64,
    Utf8,
    Bool,
    /// Any other type, by its number in Arrow's `Schema.fbs`.
    Other(u8),
}

impl DataType {
    /// Its name in a `ColumnSchema`.
    pub fn name(self) -> &'static str {
        match self {
            DataType::Int64 => "Int64",
            DataType::Float64 => "Float64",
            DataType::Utf8 => "Utf8",
            DataType::Bool => "Boolean",
            DataType::Other(_) => "another type",
        }
    }
}

/// Numbers of Arrow's flatbuffers (`Message.fbs`, `Schema.fbs`).
mod ids {
    pub const VERSION_5: i16 = 4;
    pub const SCHEMA: u8 = 1;
    pub const DICTIONARY_BATCH: u8 = 2;
    pub const RECORD_BATCH: u8 = 3;

    pub const INT: u8 = 2;
    pub const FLOATING_POINT: u8 = 3;
    pub const UTF8: u8 = 5;
    pub const BOOL: u8 = 6;
    pub const DOUBLE: i16 = 2;
}
