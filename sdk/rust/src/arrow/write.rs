//! Columns, and a batch of them as an Arrow IPC stream.

use super::flat::{Slot, Writer};
use super::{ids, DataType};
use crate::errors::{ConnectorError, Result};
use crate::stream::ColumnSchema;
use std::fmt::{self, Write};

/// The end of a column of strings, to which the text of a row is appended.
pub struct Text(Vec<u8>);

impl Write for Text {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// A column of a batch, in Arrow's layout. Made from its values; None is null.
pub struct Column {
    name: String,
    data_type: DataType,
    nullable: bool,
    rows: usize,
    nulls: usize,
    /// A bit per row, set if there is a value.
    validity: Vec<u8>,
    /// Ends of strings; empty for other types.
    offsets: Vec<u8>,
    values: Vec<u8>,
}

impl Column {
    fn new(name: &str, data_type: DataType) -> Self {
        let (validity, offsets, values) = (Vec::new(), Vec::new(), Vec::new());
        Column { name: name.to_string(), data_type, nullable: true, rows: 0, nulls: 0, validity, offsets, values }
    }

    pub fn int64(name: &str, values: impl IntoIterator<Item = Option<i64>>) -> Self {
        Column::fixed(name, DataType::Int64, values, |value| value.unwrap_or(0).to_le_bytes())
    }

    pub fn float64(name: &str, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        Column::fixed(name, DataType::Float64, values, |value| value.unwrap_or(0.0).to_le_bytes())
    }

    pub fn utf8<S: AsRef<str>>(name: &str, values: impl IntoIterator<Item = Option<S>>) -> Self {
        Column::utf8_with(name, values, |value, text| text.write_str(value.as_ref()))
    }

    /// A column of strings that `write` appends one after the other, which saves a `String` for each.
    pub fn utf8_with<T>(
        name: &str,
        values: impl IntoIterator<Item = Option<T>>,
        mut write: impl FnMut(T, &mut Text) -> fmt::Result,
    ) -> Self {
        let values = values.into_iter();
        let mut column = Column::new(name, DataType::Utf8);
        column.offsets.reserve(4 * values.size_hint().0 + 4);
        column.offsets.extend_from_slice(&[0; 4]);
        let mut text = Text(Vec::new());
        for value in values {
            column.row(value.is_some());
            if let Some(value) = value {
                write(value, &mut text).expect("a value can be written as text");
            }
            column.offsets.extend_from_slice(&(text.0.len() as u32).to_le_bytes());
        }
        column.values = text.0;
        column
    }

    pub fn bool(name: &str, values: impl IntoIterator<Item = Option<bool>>) -> Self {
        let mut column = Column::new(name, DataType::Bool);
        for value in values {
            push_bit(&mut column.values, column.rows, value.unwrap_or(false));
            column.row(value.is_some());
        }
        column
    }

    /// A column of values of 8 bytes.
    fn fixed<T>(
        name: &str,
        data_type: DataType,
        values: impl IntoIterator<Item = Option<T>>,
        bytes: impl Fn(Option<T>) -> [u8; 8],
    ) -> Self {
        let values = values.into_iter();
        let mut column = Column::new(name, data_type);
        column.values.reserve(8 * values.size_hint().0);
        for value in values {
            column.row(value.is_some());
            column.values.extend_from_slice(&bytes(value));
        }
        column
    }

    /// Declares that the column has no nulls, in its schema too: do so for all batches of a stream, or for none.
    pub fn required(self) -> Self {
        Column { nullable: false, ..self }
    }

    /// The column in a catalog.
    pub fn schema(&self) -> ColumnSchema {
        let data_type = self.data_type.name().to_string();
        ColumnSchema { name: self.name.clone(), data_type, nullable: self.nullable }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    #[inline]
    fn row(&mut self, valid: bool) {
        push_bit(&mut self.validity, self.rows, valid);
        self.rows += 1;
        self.nulls += !valid as usize;
    }

    fn check(&self, rows: usize) -> Result<()> {
        let fault = |message: String| Err(ConnectorError::internal("BAD_COLUMN", message));
        if self.rows != rows {
            return fault(format!("{}: expected {} rows as in the first column, found {}", self.name, rows, self.rows));
        }
        if !self.nullable && self.nulls > 0 {
            return fault(format!("{}: expected no nulls in a required column, found {}", self.name, self.nulls));
        }
        if self.data_type == DataType::Utf8 && self.values.len() > i32::MAX as usize {
            return fault(format!("{}: the strings of a batch have at most 2 GiB; emit fewer rows", self.name));
        }
        Ok(())
    }

    fn buffers(&self) -> Vec<&[u8]> {
        let validity: &[u8] = if self.nulls > 0 { &self.validity } else { &[] };
        match self.data_type {
            DataType::Utf8 => vec![validity, &self.offsets, &self.values],
            _ => vec![validity, &self.values],
        }
    }
}

#[inline]
fn push_bit(bits: &mut Vec<u8>, place: usize, set: bool) {
    let bit = (set as u8) << (place % 8);
    match bits.last_mut() {
        Some(last) if place % 8 != 0 => *last |= bit,
        _ => bits.push(bit),
    }
}

/// A batch as an Arrow IPC stream: schema, batch, end.
pub fn encode(columns: &[Column]) -> Result<Vec<u8>> {
    let rows = match columns.first() {
        Some(first) => first.rows,
        None => return Err(ConnectorError::internal("BAD_COLUMN", "a batch has at least one column, found none")),
    };
    columns.iter().try_for_each(|column| column.check(rows))?;
    let body: usize = columns.iter().flat_map(Column::buffers).map(|buffer| padded(buffer.len())).sum();
    let mut out = Vec::with_capacity(body + 512 + 256 * columns.len());
    message(&mut out, &schema(columns));
    message(&mut out, &record_batch(columns, rows, body));
    for buffer in columns.iter().flat_map(Column::buffers) {
        out.extend_from_slice(buffer);
        out.resize(padded(out.len()), 0);
    }
    out.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    Ok(out)
}

fn padded(size: usize) -> usize {
    (size + 7) & !7
}

fn message(out: &mut Vec<u8>, metadata: &[u8]) {
    out.extend_from_slice(&[0xff; 4]);
    out.extend_from_slice(&(metadata.len() as u32).to_le_bytes());
    out.extend_from_slice(metadata);
}

/// A message whose header, a table, follows; returns the place of the reference to it.
fn header(writer: &mut Writer, kind: u8, body: usize) -> usize {
    let slots = [Slot::I16(ids::VERSION_5), Slot::U8(kind), Slot::Offset, Slot::I64(body as i64)];
    let (table, fields) = writer.table(&slots);
    writer.refer(0, table);
    fields[2]
}

fn schema(columns: &[Column]) -> Vec<u8> {
    let mut writer = Writer::new();
    let reference = header(&mut writer, ids::SCHEMA, 0);
    let (table, fields) = writer.table(&[Slot::I16(0), Slot::Offset]);
    writer.refer(reference, table);
    let (vector, places) = writer.references(columns.len());
    writer.refer(fields[1], vector);
    for (column, place) in columns.iter().zip(places) {
        let (kind, slots) = match column.data_type {
            DataType::Int64 => (ids::INT, vec![Slot::I32(64), Slot::U8(1)]),
            DataType::Float64 => (ids::FLOATING_POINT, vec![Slot::I16(ids::DOUBLE)]),
            DataType::Utf8 => (ids::UTF8, Vec::new()),
            DataType::Bool => (ids::BOOL, Vec::new()),
            DataType::Other(_) => unreachable!("no constructor makes such a column"),
        };
        let nullable = Slot::U8(column.nullable as u8);
        let (field, of) =
            writer.table(&[Slot::Offset, nullable, Slot::U8(kind), Slot::Offset, Slot::Absent, Slot::Offset]);
        writer.refer(place, field);
        let name = writer.string(&column.name);
        writer.refer(of[0], name);
        let (data_type, _) = writer.table(&slots);
        writer.refer(of[3], data_type);
        let (children, _) = writer.references(0);
        writer.refer(of[5], children);
    }
    writer.align(8);
    writer.data
}

fn record_batch(columns: &[Column], rows: usize, body: usize) -> Vec<u8> {
    let mut writer = Writer::new();
    let reference = header(&mut writer, ids::RECORD_BATCH, body);
    let (table, fields) = writer.table(&[Slot::I64(rows as i64), Slot::Offset, Slot::Offset]);
    writer.refer(reference, table);
    let nodes = writer.vector(columns.len(), 8);
    writer.refer(fields[1], nodes);
    for column in columns {
        writer.data.extend_from_slice(&(rows as i64).to_le_bytes());
        writer.data.extend_from_slice(&(column.nulls as i64).to_le_bytes());
    }
    let buffers: Vec<&[u8]> = columns.iter().flat_map(Column::buffers).collect();
    let vector = writer.vector(buffers.len(), 8);
    writer.refer(fields[2], vector);
    let mut at = 0;
    for buffer in buffers {
        writer.data.extend_from_slice(&(at as i64).to_le_bytes());
        writer.data.extend_from_slice(&(buffer.len() as i64).to_le_bytes());
        at += padded(buffer.len());
    }
    writer.align(8);
    writer.data
}
