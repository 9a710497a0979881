//! System calls that the sandbox refuses to a plugin: made to fail with EPERM, and counted.
//!
//! A filter of the kernel's (see the crate `onebit-sandbox`) raises SIGSYS for a call that it does not allow. Without a handler the process
//! would end, and a library that only tried something (a socket to a display, a higher priority) would take its model along. The handler here
//! lets the call fail as if the kernel had said so, and counts it, so that the host can tell people what a plugin tried.
//!
//! The handler runs wherever the call was made, also inside an allocator: it touches nothing but atomics and the interrupted registers.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Different calls that are told apart. More than that are counted with the last.
const KINDS: usize = 32;

/// Number of a call plus one; zero = free.
static CALLS: [AtomicU32; KINDS] = [const { AtomicU32::new(0) }; KINDS];
static COUNTS: [AtomicU64; KINDS] = [const { AtomicU64::new(0) }; KINDS];

/// Installs the handler for this process. Before the filter is put up, which then keeps others from replacing it.
pub fn count_refused_calls() -> std::io::Result<()> {
    // SAFETY: a plain struct for which all zeros is a value.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = on_refused as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    // SAFETY: a set to initialise; then a valid action whose handler does only what a handler may.
    let done = unsafe {
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGSYS, &raw const action, core::ptr::null_mut())
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Numbers of the refused calls and how often each was tried.
#[must_use]
pub fn refused_calls() -> Vec<(u32, u64)> {
    CALLS.iter().zip(&COUNTS).map_while(|(call, count)| call.load(Relaxed).checked_sub(1).map(|call| (call, count.load(Relaxed)))).collect()
}

fn count(call: u32) {
    let mark = call.wrapping_add(1);
    for (known, count) in CALLS.iter().zip(&COUNTS) {
        let seen = known.compare_exchange(0, mark, Relaxed, Relaxed).unwrap_or_else(|seen| seen);
        if seen == 0 || seen == mark {
            count.fetch_add(1, Relaxed);
            return;
        }
    }
    if let Some(last) = COUNTS.last() {
        last.fetch_add(1, Relaxed);
    }
}

/// `siginfo_t` as the kernel fills it for SIGSYS (`_sigsys` in its headers).
#[repr(C)]
struct SigsysInfo {
    signo: c_int,
    errno: c_int,
    code: c_int,
    _padding: c_int,
    call_address: *mut c_void,
    call: c_int,
    machine: u32,
}

/// The signal came from a filter, not from somebody who sent it.
const SYS_SECCOMP: c_int = 1;

extern "C" fn on_refused(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands over both, valid for this call; for SIGSYS the first begins as `SigsysInfo`.
    let (info, context) = unsafe { (&*info.cast::<SigsysInfo>(), &mut *context.cast::<libc::ucontext_t>()) };
    if info.code != SYS_SECCOMP {
        return;
    }
    count(info.call.unsigned_abs());
    set_result(context, -libc::EPERM);
}

/// The register in which the interrupted code finds what its call gave back.
#[cfg(target_arch = "x86_64")]
fn set_result(context: &mut libc::ucontext_t, value: c_int) {
    context.uc_mcontext.gregs[libc::REG_RAX as usize] = i64::from(value);
}

#[cfg(target_arch = "aarch64")]
fn set_result(context: &mut libc::ucontext_t, value: c_int) {
    context.uc_mcontext.regs[0] = i64::from(value) as u64;
}

#[cfg(target_arch = "riscv64")]
fn set_result(context: &mut libc::ucontext_t, value: c_int) {
    // a0.
    context.uc_mcontext.__gregs[10] = i64::from(value) as _;
}
