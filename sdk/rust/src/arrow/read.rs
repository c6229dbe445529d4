//! A batch of an Arrow IPC stream, read in place.

use super::flat::{bytes, Table};
use super::{ids, DataType};
use crate::errors::{ConnectorError, Result};

/// Columns may lie in columns, and a guest's stack is small.
const DEPTH: usize = 64;

/// The rows of a batch.
pub struct Batch<'a> {
    pub rows: usize,
    pub columns: Vec<ColumnView<'a>>,
}

/// A column of a batch. Getters return None for null, for a row that does not exist and for a column of another type.
pub struct ColumnView<'a> {
    pub name: &'a str,
    pub nullable: bool,
    pub data_type: DataType,
    rows: usize,
    /// Empty if no value is null.
    validity: &'a [u8],
    offsets: &'a [u8],
    values: &'a [u8],
}

impl<'a> ColumnView<'a> {
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        row >= self.rows || (!self.validity.is_empty() && !bit(self.validity, row))
    }

    #[inline]
    pub fn i64(&self, row: usize) -> Option<i64> {
        self.fixed(row, DataType::Int64).map(i64::from_le_bytes)
    }

    #[inline]
    pub fn f64(&self, row: usize) -> Option<f64> {
        self.fixed(row, DataType::Float64).map(f64::from_le_bytes)
    }

    #[inline]
    pub fn bool(&self, row: usize) -> Option<bool> {
        let there = self.data_type == DataType::Bool && !self.is_null(row);
        there.then(|| bit(self.values, row))
    }

    #[inline]
    pub fn str(&self, row: usize) -> Option<&'a str> {
        if self.data_type != DataType::Utf8 || self.is_null(row) {
            return None;
        }
        let (start, end) = (self.offset(row)?, self.offset(row + 1)?);
        std::str::from_utf8(self.values.get(start..end)?).ok()
    }

    #[inline]
    fn offset(&self, place: usize) -> Option<usize> {
        usize::try_from(i32::from_le_bytes(bytes(self.offsets, place.checked_mul(4)?)?)).ok()
    }

    #[inline]
    fn fixed(&self, row: usize, data_type: DataType) -> Option<[u8; 8]> {
        if self.data_type != data_type || self.is_null(row) {
            None
        } else {
            bytes(self.values, 8 * row)
        }
    }

    /// Whether every row has its bytes.
    fn is_complete(&self) -> bool {
        let bitmap = self.rows / 8 + (self.rows % 8 != 0) as usize;
        let values = match self.data_type {
            DataType::Int64 | DataType::Float64 => self.values.len() / 8 >= self.rows,
            DataType::Bool => self.values.len() >= bitmap,
            DataType::Utf8 => self.has_valid_strings(),
            DataType::Other(_) => return true,
        };
        values && (self.validity.is_empty() || self.validity.len() >= bitmap)
    }

    fn has_valid_strings(&self) -> bool {
        let text = match std::str::from_utf8(self.values) {
            Ok(text) => text,
            Err(_) => return false,
        };
        let mut before = 0;
        (0..=self.rows).all(|place| {
            let end = self.offset(place).unwrap_or(usize::MAX);
            std::mem::replace(&mut before, end) <= end && text.is_char_boundary(end)
        })
    }
}

#[inline]
fn bit(bits: &[u8], place: usize) -> bool {
    bits[place / 8] >> (place % 8) & 1 == 1
}

impl<'a> Batch<'a> {
    /// The first batch of a stream. Its bytes are checked here, so that getters need not fail.
    pub fn read(ipc: &'a [u8]) -> Result<Self> {
        parse(ipc).map_err(|why| ConnectorError::data("BAD_BATCH", format!("the batch can't be read: {}", why)))
    }

    pub fn column(&self, name: &str) -> Option<&ColumnView<'a>> {
        self.columns.iter().find(|column| column.name == name)
    }
}

type Parsed<T> = std::result::Result<T, &'static str>;
const CUT: &str = "it is cut off or damaged";

struct Message<'a> {
    kind: u8,
    header: Table<'a>,
    body: &'a [u8],
}

/// The next message; takes it off the data.
fn next_message<'a>(data: &mut &'a [u8]) -> Option<Message<'a>> {
    let mut at = 0;
    if bytes::<4>(data, 0)? == [0xff; 4] {
        at = 4;
    }
    let size = u32::from_le_bytes(bytes(data, at)?) as usize;
    let root = Table::root(data.get(at + 4..(at + 4).checked_add(size)?)?)?;
    let rest = data.get(at + 4 + size..)?;
    let body = rest.get(..usize::try_from(root.i64(3)).ok()?)?;
    *data = rest.get((body.len() + 7) & !7..).unwrap_or(&[]);
    Some(Message { kind: root.u8(1), header: root.table(2)?, body })
}

fn parse(ipc: &[u8]) -> Parsed<Batch<'_>> {
    let mut data = ipc;
    let schema = next_message(&mut data).filter(|found| found.kind == ids::SCHEMA).ok_or("it has no schema")?;
    let fields = schema.header.tables(1).ok_or(CUT)?;
    let batch = loop {
        match next_message(&mut data) {
            // Values of dictionaries: columns that use them are of another type.
            Some(found) if found.kind == ids::DICTIONARY_BATCH => continue,
            Some(found) if found.kind == ids::RECORD_BATCH => break found,
            _ => return Err("it has no rows, or is cut off"),
        }
    };
    if batch.header.table(3).is_some() {
        return Err("it is compressed, which this kit does not read");
    }
    let rows = usize::try_from(batch.header.i64(0)).map_err(|_| CUT)?;
    let mut buffers = Buffers {
        places: batch.header.vector(2, 16).unwrap_or(&[]).chunks_exact(16),
        variadic: batch.header.vector(4, 8).unwrap_or(&[]).chunks_exact(8),
        body: batch.body,
    };
    let columns = fields.iter().map(|field| buffers.column(field, rows)).collect::<Parsed<Vec<_>>>()?;
    Ok(Batch { rows, columns })
}

/// The buffers of a batch, in the order of its columns.
struct Buffers<'a> {
    places: std::slice::ChunksExact<'a, u8>,
    variadic: std::slice::ChunksExact<'a, u8>,
    body: &'a [u8],
}

impl<'a> Buffers<'a> {
    fn take(&mut self) -> Parsed<&'a [u8]> {
        let place = self.places.next().ok_or(CUT)?;
        let part = |at| bytes(place, at).and_then(|found| usize::try_from(i64::from_le_bytes(found)).ok()).ok_or(CUT);
        let (start, length): (usize, usize) = (part(0)?, part(8)?);
        self.body.get(start..start.checked_add(length).ok_or(CUT)?).ok_or(CUT)
    }

    fn column(&mut self, field: &Table<'a>, rows: usize) -> Parsed<ColumnView<'a>> {
        let data_type = data_type(field);
        let (name, nullable) = (field.string(0).unwrap_or(""), field.u8(1) != 0);
        let none: &[u8] = &[];
        let mut column = ColumnView { name, nullable, data_type, rows, validity: none, offsets: none, values: none };
        match data_type {
            DataType::Other(_) => self.skip(field, 0)?,
            DataType::Utf8 => {
                column.validity = self.take()?;
                column.offsets = self.take()?;
                column.values = self.take()?;
            }
            _ => {
                column.validity = self.take()?;
                column.values = self.take()?;
            }
        }
        if column.is_complete() {
            Ok(column)
        } else {
            Err("the values of a column are cut off or damaged")
        }
    }

    /// Skips a column of another type, with the columns in it. See "Buffer Listing for Each Layout" in Arrow's format.
    fn skip(&mut self, field: &Table<'a>, depth: usize) -> Parsed<()> {
        if depth > DEPTH {
            return Err("its columns are nested too deeply");
        }
        if field.table(4).is_some() {
            return self.skip_buffers(2); // the indices of a dictionary
        }
        let buffers = match field.u8(2) {
            1 | 22 => 0,                    // null, run-end encoded
            13 | 16 => 1,                   // struct, fixed-size list
            4 | 5 | 19 | 20 | 25 | 26 => 3, // binary, text, list view
            14 => {
                let dense = field.table(3).ok_or(CUT)?.i16(0) == 1;
                1 + dense as usize // union
            }
            23 | 24 => {
                let more = self.variadic.next().and_then(|count| bytes(count, 0)).map(i64::from_le_bytes);
                2 + usize::try_from(more.ok_or(CUT)?).map_err(|_| CUT)? // views
            }
            _ => 2, // fixed width, list, map
        };
        self.skip_buffers(buffers)?;
        field.tables(5).ok_or(CUT)?.iter().try_for_each(|child| self.skip(child, depth + 1))
    }

    fn skip_buffers(&mut self, count: usize) -> Parsed<()> {
        (0..count).try_for_each(|_| self.take().map(|_| ()))
    }
}

fn data_type(field: &Table) -> DataType {
    let kind = field.u8(2);
    if field.table(4).is_some() {
        return DataType::Other(kind);
    }
    match (kind, field.table(3)) {
        (ids::INT, Some(int)) if int.i32(0) == 64 && int.u8(1) != 0 => DataType::Int64,
        (ids::FLOATING_POINT, Some(float)) if float.i16(0) == ids::DOUBLE => DataType::Float64,
        (ids::UTF8, _) => DataType::Utf8,
        (ids::BOOL, _) => DataType::Bool,
        _ => DataType::Other(kind),
    }
}
