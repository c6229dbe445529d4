//! The traits of connectors, and the exports of a module that is one.

use std::alloc::{alloc, dealloc, Layout};
use std::cell::RefCell;

use crate::errors::{ConnectorError, Result};
use crate::host::{self, LogLevel};
use crate::json::Json;
use crate::json_form::{FromJson, ToJson};
use crate::lifecycle::{Catalog, ConfigBlob, OpenContext, OpenInfo, ValidationResult, ValidationStatus};
use crate::progress::{ReadSummary, WriteSummary};
use crate::run::{ReadRun, Thresholds, WriteRun};
use crate::stream::StreamContext;

/// What sources and destinations have in common.
pub trait Connector: Sized {
    /// Makes the connector from its config.
    fn open(context: &OpenContext) -> Result<Self>;

    /// What it can do.
    fn info(&self) -> OpenInfo {
        OpenInfo::default()
    }

    /// Checks that the config works, after `open`.
    fn validate(&mut self, _config: &ConfigBlob) -> Result<ValidationResult> {
        Ok(ValidationResult { status: ValidationStatus::Success, message: String::new() })
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

pub trait Source: Connector {
    fn discover(&mut self) -> Result<Catalog>;

    /// Emits the stream in batches; `run` makes the checkpoints.
    fn run_read(&mut self, stream: &StreamContext, run: ReadRun) -> Result<ReadSummary>;
}

pub trait Destination: Connector {
    /// Writes batches until there are no more; calls `run.committed` after each commit.
    fn run_write(&mut self, stream: &StreamContext, run: WriteRun) -> Result<WriteSummary>;
}

struct Opened<T> {
    connector: T,
    context: OpenContext,
}

/// The connector of a module between the calls of the host.
pub struct Slot<T>(RefCell<Option<Opened<T>>>);

// A guest has one thread.
unsafe impl<T> Sync for Slot<T> {}

impl<T: Connector> Slot<T> {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Slot(RefCell::new(None))
    }

    pub fn open(&self, ptr: u32, len: u32) -> i64 {
        std::panic::set_hook(Box::new(|info| host::log(LogLevel::Error, &info.to_string())));
        answer(argument(ptr, len).and_then(|context: OpenContext| {
            let connector = T::open(&context)?;
            let info = connector.info();
            *self.0.borrow_mut() = Some(Opened { connector, context });
            Ok(info)
        }))
    }

    pub fn validate(&self, ptr: u32, len: u32) -> i64 {
        answer(argument(ptr, len).and_then(|config| self.with(|opened| opened.connector.validate(&config))))
    }

    /// 0, or 1 if it failed; the reason is in the log.
    pub fn close(&self) -> i32 {
        match self.0.borrow_mut().take().map(|mut opened| opened.connector.close()) {
            Some(Err(error)) => {
                host::log(LogLevel::Error, &format!("close: {}: {}", error.code, error.message));
                1
            }
            _ => 0,
        }
    }

    fn with<R>(&self, work: impl FnOnce(&mut Opened<T>) -> Result<R>) -> Result<R> {
        match self.0.borrow_mut().as_mut() {
            Some(opened) => work(opened),
            None => Err(ConnectorError::internal("NOT_OPEN", "the connector is not open; call rb_open first")),
        }
    }
}

impl<T: Source> Slot<T> {
    pub fn discover(&self) -> i64 {
        answer(self.with(|opened| opened.connector.discover()))
    }

    pub fn run_read(&self, ptr: u32, len: u32) -> i64 {
        answer(argument(ptr, len).and_then(|stream: StreamContext| {
            self.with(|Opened { connector, context }| {
                let run = ReadRun::new(&context.connector_id, &stream, Thresholds::of(&context.config)?);
                connector.run_read(&stream, run)
            })
        }))
    }
}

impl<T: Destination> Slot<T> {
    pub fn run_write(&self, ptr: u32, len: u32) -> i64 {
        answer(argument(ptr, len).and_then(|stream: StreamContext| {
            self.with(|Opened { connector, context }| {
                let run = WriteRun::new(&context.connector_id, &stream, Thresholds::of(&context.config)?);
                connector.run_write(&stream, run)
            })
        }))
    }
}

/// The argument of a call: JSON in memory that the host frees.
fn argument<A: FromJson>(ptr: u32, len: u32) -> Result<A> {
    let data = unsafe { std::slice::from_raw_parts(ptr as usize as *const u8, len as usize) };
    let parsed = Json::parse(data).and_then(|json| A::from_json(&json));
    parsed.map_err(|error| ConnectorError::internal("BAD_ARGUMENT", format!("the argument can't be read: {}", error)))
}

/// The result of a call, `ptr << 32 | len` of JSON in memory that the host frees.
fn answer<R: ToJson>(result: Result<R>) -> i64 {
    let text = match result {
        Ok(value) => Json::object([("ok", value.to_json())]).to_string(),
        Err(error) => Json::object([("err", error.to_json())]).to_string(),
    };
    let ptr = allocate(text.len() as u32);
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), ptr as usize as *mut u8, text.len()) };
    ((u64::from(ptr) << 32) | text.len() as u64) as i64
}

fn layout(size: u32) -> Layout {
    Layout::from_size_align(size.max(1) as usize, 8).unwrap_or_else(|_| std::process::abort())
}

/// Memory for the host to write to. Traps if there is none: every address would be a valid one.
pub fn allocate(size: u32) -> u32 {
    let ptr = unsafe { alloc(layout(size)) };
    if ptr.is_null() {
        std::process::abort();
    }
    ptr as usize as u32
}

/// # Safety
/// `ptr` comes from `allocate` with the same size, and is not used any more.
pub unsafe fn deallocate(ptr: u32, size: u32) {
    dealloc(ptr as usize as *mut u8, layout(size));
}

/// Exports a type that implements `Source`.
#[macro_export]
macro_rules! gauss_source {
    ($kind:ty) => {
        $crate::gauss_exports!($kind);
        $crate::gauss_exports!(read);
    };
}

/// Exports a type that implements `Destination`.
#[macro_export]
macro_rules! gauss_destination {
    ($kind:ty) => {
        $crate::gauss_exports!($kind);
        $crate::gauss_exports!(write);
    };
}

/// Exports a type that implements both `Source` and `Destination`.
#[macro_export]
macro_rules! gauss_connector {
    ($kind:ty) => {
        $crate::gauss_exports!($kind);
        $crate::gauss_exports!(read);
        $crate::gauss_exports!(write);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! gauss_exports {
    (read) => {
        #[no_mangle]
        pub extern "C" fn rb_discover(_ptr: u32, _len: u32) -> i64 {
            GAUSS_SLOT.discover()
        }

        #[no_mangle]
        pub extern "C" fn rb_run_read(ptr: u32, len: u32) -> i64 {
            GAUSS_SLOT.run_read(ptr, len)
        }
    };
    (write) => {
        #[no_mangle]
        pub extern "C" fn rb_run_write(ptr: u32, len: u32) -> i64 {
            GAUSS_SLOT.run_write(ptr, len)
        }
    };
    ($kind:ty) => {
        static GAUSS_SLOT: $crate::export::Slot<$kind> = $crate::export::Slot::new();

        #[no_mangle]
        pub extern "C" fn rb_allocate(size: u32) -> u32 {
            $crate::export::allocate(size)
        }

        #[no_mangle]
        pub extern "C" fn rb_deallocate(ptr: u32, size: u32) {
            unsafe { $crate::export::deallocate(ptr, size) }
        }

        #[no_mangle]
        pub extern "C" fn rb_open(ptr: u32, len: u32) -> i64 {
            GAUSS_SLOT.open(ptr, len)
        }

        #[no_mangle]
        pub extern "C" fn rb_validate(ptr: u32, len: u32) -> i64 {
            GAUSS_SLOT.validate(ptr, len)
        }

        #[no_mangle]
        pub extern "C" fn rb_close() -> i32 {
            GAUSS_SLOT.close()
        }
    };
}
