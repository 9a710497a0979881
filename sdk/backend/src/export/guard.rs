//! The border: no panic leaves, every failure is reported, and the panic's place is in its message.
//!
//! A panic cannot be caught by the host (it has another copy of std), so it is caught here. The hook keeps it off stderr: a plugin writes
//! to no file descriptor. Panics on threads of the plugin's own are logged through the host.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::{Once, OnceLock};

use onebit_plugin_api::{ONEBIT_OK, OnebitStatus};

use crate::{Error, Host, Level};

/// The host that entered first. One per library, as the SDK is linked into each plugin.
pub(crate) static HOST: OnceLock<Host> = OnceLock::new();

thread_local! {
    /// Text and place of the last panic on this thread.
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work`; a failure or a panic is reported to the host and becomes its status.
pub(crate) fn guard(work: impl FnOnce() -> Result<(), Error>) -> OnebitStatus {
    match caught(work) {
        Ok(()) => ONEBIT_OK,
        Err(error) => {
            if let Some(host) = HOST.get() {
                host.report(&error);
            }
            error.code
        }
    }
}

/// Runs `work`; a panic becomes an error.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(payload) => {
            let text = LAST_PANIC
                .with(|last| last.try_borrow_mut().ok().and_then(|mut last| last.take()))
                .unwrap_or_else(|| words(payload.as_ref()).to_owned());
            // Dropping a payload runs code of whoever panicked, which may panic again; a leak is the smaller evil.
            core::mem::forget(payload);
            Err(Error::panic(text))
        }
    }
}

/// Installs the hook that keeps panics off stderr. Once per library: this copy of std is the plugin's own.
pub(crate) fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(hook)));
}

fn hook(info: &PanicHookInfo<'_>) {
    let words = words(info.payload());
    let text = match info.location() {
        Some(place) => format!("panic at {}:{}: {words}", place.file(), place.line()),
        None => format!("panic: {words}"),
    };
    if let Some(host) = HOST.get() {
        host.log(Level::Error, "panic", &text);
    }
    LAST_PANIC.with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = Some(text);
        }
    });
}

fn words(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "a panic without text"
    }
}
