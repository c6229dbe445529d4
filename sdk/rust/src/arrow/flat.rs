//! Flatbuffers: a writer that puts every table before what it refers to, and a reader that checks every bound.

/// A field of a table that is written.
pub enum Slot {
    /// Absent: the reader takes its default.
    Absent,
    U8(u8),
    I16(i16),
    I32(i32),
    I64(i64),
    /// A reference; its target is set by `Writer::refer`.
    Offset,
}

impl Slot {
    fn size(&self) -> usize {
        match self {
            Slot::Absent => 0,
            Slot::U8(_) => 1,
            Slot::I16(_) => 2,
            Slot::I32(_) | Slot::Offset => 4,
            Slot::I64(_) => 8,
        }
    }
}

pub struct Writer {
    pub data: Vec<u8>,
}

impl Writer {
    /// Starts with the reference to the root, at place 0.
    pub fn new() -> Self {
        Writer { data: vec![0; 4] }
    }

    pub fn align(&mut self, to: usize) {
        self.data.resize((self.data.len() + to - 1) / to * to, 0);
    }

    /// Writes a table; the result has the place of each field.
    pub fn table(&mut self, slots: &[Slot]) -> (usize, Vec<usize>) {
        let mut size = 4;
        let mut offsets = Vec::with_capacity(slots.len());
        for slot in slots {
            let width = slot.size().max(1);
            size = (size + width - 1) / width * width;
            offsets.push(if slot.size() == 0 { 0 } else { size });
            size += slot.size();
        }
        // The table starts at a multiple of 8, right behind its vtable.
        let vtable_size = 4 + 2 * slots.len();
        while (self.data.len() + vtable_size) % 8 != 0 {
            self.data.push(0);
        }
        let vtable = self.data.len();
        self.data.extend_from_slice(&(vtable_size as u16).to_le_bytes());
        self.data.extend_from_slice(&(size as u16).to_le_bytes());
        for offset in &offsets {
            self.data.extend_from_slice(&(*offset as u16).to_le_bytes());
        }
        let table = self.data.len();
        self.data.extend_from_slice(&((table - vtable) as i32).to_le_bytes());
        for (slot, offset) in slots.iter().zip(&offsets) {
            self.data.resize(self.data.len().max(table + offset), 0);
            match slot {
                Slot::Absent => {}
                Slot::U8(value) => self.data.push(*value),
                Slot::I16(value) => self.data.extend_from_slice(&value.to_le_bytes()),
                Slot::I32(value) => self.data.extend_from_slice(&value.to_le_bytes()),
                Slot::I64(value) => self.data.extend_from_slice(&value.to_le_bytes()),
                Slot::Offset => self.data.extend_from_slice(&[0; 4]),
            }
        }
        (table, offsets.iter().map(|offset| table + offset).collect())
    }

    /// Makes the reference at a place point to a later one.
    pub fn refer(&mut self, at: usize, target: usize) {
        self.data[at..at + 4].copy_from_slice(&((target - at) as u32).to_le_bytes());
    }

    pub fn string(&mut self, text: &str) -> usize {
        let at = self.vector(text.len(), 1);
        self.data.extend_from_slice(text.as_bytes());
        self.data.push(0);
        at
    }

    /// Writes the length of a vector; its items, of an alignment, follow.
    pub fn vector(&mut self, length: usize, alignment: usize) -> usize {
        self.align(4);
        while (self.data.len() + 4) % alignment != 0 {
            self.data.push(0);
        }
        let at = self.data.len();
        self.data.extend_from_slice(&(length as u32).to_le_bytes());
        at
    }

    /// A vector of references; the result has the place of each.
    pub fn references(&mut self, length: usize) -> (usize, Vec<usize>) {
        let at = self.vector(length, 4);
        self.data.resize(self.data.len() + 4 * length, 0);
        (at, (0..length).map(|place| at + 4 + 4 * place).collect())
    }
}

/// A table that is read. Every getter returns None outside of the data.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    data: &'a [u8],
    at: usize,
}

#[inline]
pub fn bytes<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at.checked_add(N)?)?.try_into().ok()
}

impl<'a> Table<'a> {
    pub fn root(data: &'a [u8]) -> Option<Self> {
        Table::target(data, 0)
    }

    fn target(data: &'a [u8], at: usize) -> Option<Self> {
        let at = at.checked_add(u32::from_le_bytes(bytes(data, at)?) as usize)?;
        bytes::<4>(data, at)?;
        Some(Table { data, at })
    }

    /// The place of a field; None if it is absent.
    fn place(&self, field: usize) -> Option<usize> {
        let back = i32::from_le_bytes(bytes(self.data, self.at)?);
        let vtable = usize::try_from(self.at as i64 - i64::from(back)).ok()?;
        let size = u16::from_le_bytes(bytes(self.data, vtable)?) as usize;
        let entry = 4 + 2 * field;
        if entry + 2 > size {
            return None;
        }
        match u16::from_le_bytes(bytes(self.data, vtable + entry)?) {
            0 => None,
            offset => self.at.checked_add(offset as usize),
        }
    }

    pub fn u8(&self, field: usize) -> u8 {
        self.place(field).and_then(|at| bytes::<1>(self.data, at)).map_or(0, |found| found[0])
    }

    pub fn i16(&self, field: usize) -> i16 {
        self.place(field).and_then(|at| bytes(self.data, at)).map_or(0, i16::from_le_bytes)
    }

    pub fn i32(&self, field: usize) -> i32 {
        self.place(field).and_then(|at| bytes(self.data, at)).map_or(0, i32::from_le_bytes)
    }

    pub fn i64(&self, field: usize) -> i64 {
        self.place(field).and_then(|at| bytes(self.data, at)).map_or(0, i64::from_le_bytes)
    }

    pub fn table(&self, field: usize) -> Option<Table<'a>> {
        Table::target(self.data, self.place(field)?)
    }

    pub fn string(&self, field: usize) -> Option<&'a str> {
        std::str::from_utf8(self.vector(field, 1)?).ok()
    }

    /// The bytes of a vector's items, each of `width` bytes.
    pub fn vector(&self, field: usize, width: usize) -> Option<&'a [u8]> {
        let at = self.place(field)?;
        let at = at.checked_add(u32::from_le_bytes(bytes(self.data, at)?) as usize)?;
        let size = (u32::from_le_bytes(bytes(self.data, at)?) as usize).checked_mul(width)?;
        self.data.get(at + 4..(at + 4).checked_add(size)?)
    }

    /// The tables of a vector; empty if it is absent.
    pub fn tables(&self, field: usize) -> Option<Vec<Table<'a>>> {
        let items = match self.vector(field, 4) {
            Some(items) => items,
            None => return Some(Vec::new()),
        };
        let start = items.as_ptr() as usize - self.data.as_ptr() as usize;
        (0..items.len() / 4).map(|place| Table::target(self.data, start + 4 * place)).collect()
    }
}
