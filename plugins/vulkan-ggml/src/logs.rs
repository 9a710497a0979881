//! Where the words of ggml and llama.cpp go: into the host's log, never to a file descriptor.
//!
//! llama.cpp states the reason of a failed load only in its log. So while a [`Listener`] lives, warnings and errors are also kept for the
//! error that the caller makes of them.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use llama_cpp_sys_2 as sys;
use onebit_sdk::{Cancel, Host, Level};

/// Most lines that a listener keeps.
const KEPT: usize = 32;

static HOST: OnceLock<Host> = OnceLock::new();
static HEARD: Mutex<Option<Vec<String>>> = Mutex::new(None);
/// One at a time: two loads would take each other's words.
static LISTENING: Mutex<()> = Mutex::new(());

thread_local! {
    /// A line that has not ended yet, with its level: ggml writes long lines in pieces.
    static OPEN: RefCell<(u32, String)> = const { RefCell::new((sys::GGML_LOG_LEVEL_NONE, String::new())) };
    /// The flag of the work that this thread does.
    static CANCEL: Cell<*const u32> = const { Cell::new(core::ptr::null()) };
}

/// Does work that may be cancelled. llama.cpp speaks of a batch that was stopped as of an error; that somebody left is none.
pub fn cancellable<T>(cancel: Cancel<'_>, work: impl FnOnce() -> T) -> T {
    CANCEL.set(cancel.as_ptr());
    let done = work();
    CANCEL.set(core::ptr::null());
    done
}

fn is_cancelled() -> bool {
    let flag = CANCEL.get();
    // SAFETY: set by `cancellable` for the length of its call, during which the flag lives; the cast only drops `const`.
    !flag.is_null() && unsafe { AtomicU32::from_ptr(flag.cast_mut()) }.load(Ordering::Relaxed) != 0
}

/// What llama.cpp warns of although all is well: one context holds several sequences, none of which is longer than the host lets it be.
fn is_no_news(line: &str) -> bool {
    line.contains("n_ctx_seq") && line.contains("n_ctx_train")
}

/// Routes all logs and the last words before an abort to `host`. The first call counts.
pub fn route(host: Host) {
    if HOST.set(host).is_ok() {
        // SAFETY: functions that live as long as the process; they carry no data.
        unsafe {
            sys::llama_log_set(Some(on_log), core::ptr::null_mut());
            sys::ggml_set_abort_callback(Some(on_abort));
        }
    }
}

/// A line of the plugin's own.
pub fn say(level: Level, target: &str, message: &str) {
    if let Some(host) = HOST.get() {
        host.log(level, target, message);
    }
}

/// Keeps what llama.cpp complains about while it lives.
pub struct Listener {
    _turn: std::sync::MutexGuard<'static, ()>,
}

impl Listener {
    /// Starts listening, after any other listener has ended.
    pub fn start() -> Self {
        let turn = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
        *HEARD.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
        Self { _turn: turn }
    }

    /// What was heard, oldest first.
    pub fn heard(&self) -> Vec<String> {
        HEARD.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        *HEARD.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

unsafe extern "C" fn on_log(level: sys::ggml_log_level, text: *const c_char, _: *mut c_void) {
    if text.is_null() {
        return;
    }
    // SAFETY: ggml passes a text that ends with zero.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    OPEN.with_borrow_mut(|(open, line)| {
        if level != sys::GGML_LOG_LEVEL_CONT {
            if !line.is_empty() {
                emit(*open, &std::mem::take(line));
            }
            *open = level;
        }
        line.push_str(&text);
        while let Some(end) = line.find('\n') {
            let rest = line.split_off(end + 1);
            let whole = std::mem::replace(line, rest);
            emit(*open, whole.trim_end());
        }
    });
}

fn emit(level: u32, line: &str) {
    if line.trim_matches(['.', ' ']).is_empty() {
        return;
    }
    let level = match level {
        _ if is_cancelled() || is_no_news(line) => Level::Debug,
        sys::GGML_LOG_LEVEL_ERROR => Level::Error,
        sys::GGML_LOG_LEVEL_WARN => Level::Warn,
        // What llama.cpp calls information is a page per load: for the author of the plugin.
        _ => Level::Debug,
    };
    if level != Level::Debug
        && let Some(heard) = HEARD.lock().unwrap_or_else(PoisonError::into_inner).as_mut()
        && heard.len() < KEPT
    {
        heard.push(line.to_owned());
    }
    say(level, "llama.cpp", line);
}

unsafe extern "C" fn on_abort(text: *const c_char) {
    if !text.is_null() {
        // SAFETY: ggml passes a text that ends with zero.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        say(Level::Error, "ggml", &format!("aborting: {text}"));
    }
}
