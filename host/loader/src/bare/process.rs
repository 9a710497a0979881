//! What belongs to the process as a whole, where asking takes a call into libc.

use core::ffi::CStr;

/// How one signal is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalHandler {
    /// The signal's number.
    pub signal: i32,
    /// Address of the handler; 0 = the default, 1 = ignored.
    pub handler: usize,
    /// `sa_flags`.
    pub flags: i32,
}

/// How every signal is handled now.
pub fn signal_handlers() -> Vec<SignalHandler> {
    let ask = |signal: i32| {
        let mut action = core::mem::MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: asks without changing; `action` is writable, and zeros are valid for it.
        let action = unsafe {
            if libc::sigaction(signal, core::ptr::null(), action.as_mut_ptr()) != 0 {
                return None;
            }
            action.assume_init()
        };
        Some(SignalHandler { signal, handler: action.sa_sigaction, flags: action.sa_flags })
    };
    (1..=libc::SIGRTMAX()).filter_map(ask).collect()
}

/// The locale that is set, of all categories.
pub fn locale() -> String {
    // SAFETY: asks without changing; the text is copied at once.
    unsafe {
        let name = libc::setlocale(libc::LC_ALL, core::ptr::null());
        if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
    }
}

/// Bytes that were allocated with the process's malloc and not freed, by whomever. `None` where libc does not tell.
pub fn allocated() -> Option<u64> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: asks only.
        let info = unsafe { libc::mallinfo2() };
        Some((info.uordblks + info.hblkhd) as u64)
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_env = "gnu")]
    fn what_is_not_freed_is_counted() {
        let before = allocated().expect("glibc tells");
        let kept = vec![1_u8; 3 << 20];
        let with = allocated().expect("glibc tells");
        assert!(with >= before + (3 << 20), "{before} to {with}");
        drop(kept);
        assert!(allocated().expect("glibc tells") < with);
    }

    #[test]
    fn the_process_has_handlers_for_its_signals_and_the_plain_locale() {
        let handlers = signal_handlers();
        assert!(handlers.iter().any(|handler| handler.signal == libc::SIGPIPE), "{handlers:?}");
        assert_eq!(locale(), "C");
    }
}
