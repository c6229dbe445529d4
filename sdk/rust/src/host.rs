//! Safe wrappers of the host's functions. `run` has what most connectors call instead.

use crate::errors::{ConnectorError, Result};
use crate::json::Json;
use crate::json_form::{FromJson, ToJson};
use crate::progress::{CheckpointEnvelope, CheckpointKind, MetricEnvelope, StateScope};

/// What a batch may have beyond `max_batch_bytes`, for its IPC envelope.
pub const BATCH_OVERHEAD_BYTES: usize = 64 << 10;
/// Maximum size of a state value.
pub const STATE_BYTES: usize = 16 << 20;
/// Size of a buffer that was given without one.
const FIRST_BYTES: usize = 64 << 10;
const ERROR_BYTES: usize = 1 << 10;

#[link(wasm_import_module = "env")]
extern "C" {
    fn rb_host_emit_batch(ptr: u32, len: u32) -> i32;
    fn rb_host_next_batch(out_ptr: u32, out_cap: u32) -> i32;
    fn rb_host_last_error(out_ptr: u32, out_cap: u32) -> i32;
    fn rb_host_state_get(scope: i32, key_ptr: u32, key_len: u32, out_ptr: u32, out_cap: u32) -> i32;
    fn rb_host_state_put(scope: i32, key_ptr: u32, key_len: u32, val_ptr: u32, val_len: u32) -> i32;
    fn rb_host_checkpoint(kind: i32, payload_ptr: u32, payload_len: u32) -> i32;
    fn rb_host_log(level: i32, msg_ptr: u32, msg_len: u32) -> i32;
    fn rb_host_metric(payload_ptr: u32, payload_len: u32) -> i32;
    fn rb_host_report_progress(records: i64, bytes: i64) -> i32;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    Error = 0,
    Warn = 1,
    Info = 2,
    Debug = 3,
    Trace = 4,
}

fn parts(data: &[u8]) -> (u32, u32) {
    (data.as_ptr() as u32, data.len() as u32)
}

/// Passes a batch, an Arrow IPC stream, to the destination. Waits while `max_inflight_batches` are on their way.
pub fn emit_batch(ipc: &[u8]) -> Result<()> {
    let (ptr, len) = parts(ipc);
    done(unsafe { rb_host_emit_batch(ptr, len) })
}

/// Replaces the content of the buffer by the next batch; false after the last. A buffer that is too small grows once, to
/// at most `max_bytes`.
pub fn next_batch(buf: &mut Vec<u8>, max_bytes: usize) -> Result<bool> {
    fill(buf, max_bytes, "a batch", |ptr, cap| unsafe { rb_host_next_batch(ptr, cap) })
}

/// A stored value; None if there is none, or if it is empty.
pub fn state_get(scope: StateScope, key: &str) -> Result<Option<Vec<u8>>> {
    let mut buf = Vec::new();
    state_get_into(scope, key, &mut buf).map(|found| found.then_some(buf))
}

/// Replaces the content of the buffer by a stored value; false if there is none.
pub fn state_get_into(scope: StateScope, key: &str, buf: &mut Vec<u8>) -> Result<bool> {
    let (key_ptr, key_len) = parts(key.as_bytes());
    fill(buf, STATE_BYTES, "a state value", |ptr, cap| unsafe {
        rb_host_state_get(scope as i32, key_ptr, key_len, ptr, cap)
    })
}

/// Stores a value of at most `STATE_BYTES` under a key of at most 1,024 bytes.
pub fn state_put(scope: StateScope, key: &str, value: &[u8]) -> Result<()> {
    let ((key_ptr, key_len), (ptr, len)) = (parts(key.as_bytes()), parts(value));
    done(unsafe { rb_host_state_put(scope as i32, key_ptr, key_len, ptr, len) })
}

pub fn checkpoint(envelope: &CheckpointEnvelope) -> Result<()> {
    let text = envelope.to_json().to_string();
    let (ptr, len) = parts(text.as_bytes());
    let kind = if envelope.checkpoint.kind == CheckpointKind::Source { 0 } else { 1 };
    done(unsafe { rb_host_checkpoint(kind, ptr, len) })
}

/// Writes a line to the log. A line that the host refuses is dropped: it is no reason to fail.
pub fn log(level: LogLevel, message: &str) {
    let (ptr, len) = parts(message.as_bytes());
    unsafe { rb_host_log(level as i32, ptr, len) };
}

pub fn metric(envelope: &MetricEnvelope) -> Result<()> {
    let text = envelope.to_json().to_string();
    let (ptr, len) = parts(text.as_bytes());
    done(unsafe { rb_host_metric(ptr, len) })
}

/// Running totals of this run.
pub fn report_progress(records: u64, bytes: u64) -> Result<()> {
    done(unsafe { rb_host_report_progress(records as i64, bytes as i64) })
}

/// The error of the call that has just failed; reading it clears it.
pub fn fetch_last_error() -> ConnectorError {
    let mut buf = Vec::with_capacity(ERROR_BYTES);
    let mut code = offer(&mut buf, |ptr, cap| unsafe { rb_host_last_error(ptr, cap) });
    if code < -1 && needed(code) <= STATE_BYTES {
        buf.reserve_exact(needed(code));
        code = offer(&mut buf, |ptr, cap| unsafe { rb_host_last_error(ptr, cap) });
    }
    let parsed = Json::parse(&buf).and_then(|json| ConnectorError::from_json(&json));
    parsed.unwrap_or_else(|error| {
        let why = if code > 0 { error } else { format!("rb_host_last_error returned {}", code) };
        ConnectorError::internal("HOST_ERROR", format!("a call of the host failed, its reason can't be read: {}", why))
    })
}

fn done(code: i32) -> Result<()> {
    if code < 0 {
        Err(fetch_last_error())
    } else {
        Ok(())
    }
}

fn needed(code: i32) -> usize {
    code.unsigned_abs() as usize
}

/// Lets the host write into a buffer. Its length stays 0 until the host has said how many bytes it wrote, so that memory
/// that was not written is never read.
fn offer(buf: &mut Vec<u8>, call: impl Fn(u32, u32) -> i32) -> i32 {
    buf.clear();
    let code = call(buf.as_mut_ptr() as u32, buf.capacity() as u32);
    if code > 0 && code as usize <= buf.capacity() {
        unsafe { buf.set_len(code as usize) };
    }
    code
}

fn fill(buf: &mut Vec<u8>, most: usize, what: &str, call: impl Fn(u32, u32) -> i32) -> Result<bool> {
    if buf.capacity() == 0 {
        buf.reserve_exact(FIRST_BYTES.min(most));
    }
    let mut code = offer(buf, &call);
    if code < -1 {
        if needed(code) > most {
            return Err(ConnectorError::config(
                "TOO_LARGE",
                format!("{} has at most {} bytes here, found {}", what, most, needed(code)),
            ));
        }
        buf.reserve_exact(needed(code));
        code = offer(buf, &call);
    }
    match code {
        0 => Ok(false),
        -1 => Err(fetch_last_error()),
        _ if code > 0 && code as usize == buf.len() => Ok(true),
        _ => Err(ConnectorError::internal(
            "BAD_LENGTH",
            format!("{} in a buffer of {} bytes: the host returned {}", what, buf.capacity(), code),
        )),
    }
}
