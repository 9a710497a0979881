//! What a plugin must never do to the process that it lives in.

use std::time::Duration;

use crate::fault;

/// Things that happen when a model is opened.
pub(crate) fn on_open() {
    if fault::is("leaks-memory") {
        core::mem::forget(vec![1_u8; 100 << 10]);
    }
    if fault::is("leaks-file") {
        leak_file();
    }
    if fault::is("leaks-thread") {
        std::thread::spawn(|| std::thread::sleep(Duration::from_secs(3600)));
    }
    if fault::is("burns") {
        std::thread::spawn(|| {
            loop {
                core::hint::spin_loop();
            }
        });
    }
    if fault::is("prints") {
        let noise = b"loading the model\n";
        // SAFETY: writes bytes that live for the call; not `println!`, whose buffer a test could capture.
        unsafe { libc::write(1, noise.as_ptr().cast(), noise.len()) };
    }
    if fault::is("environment") {
        // SAFETY: the fault that was asked for; no other thread of the test's process looks at the environment.
        unsafe { libc::setenv(c"OMP_NUM_THREADS".as_ptr(), c"1".as_ptr(), 1) };
    }
    if fault::is("folder") {
        let _ = std::env::set_current_dir("/");
    }
    if fault::is("umask") {
        // SAFETY: sets a number of the process.
        unsafe { libc::umask(0o777) };
    }
    if fault::is("signal") {
        let handler: extern "C" fn(i32) = ignore;
        // SAFETY: a handler that does nothing.
        unsafe { libc::signal(libc::SIGSEGV, handler as *const () as libc::sighandler_t) };
    }
    if fault::is("crash-at-exit") {
        // SAFETY: a function of this library, which is never unloaded.
        unsafe { libc::atexit(crash) };
    }
    if fault::is("exits") {
        std::process::exit(0);
    }
    if fault::is("segfaults") {
        // SAFETY: a write to address 8 is the fault that was asked for; the process ends here.
        unsafe { core::ptr::without_provenance_mut::<u8>(8).write_volatile(1) };
    }
    if fault::is("calls-home") {
        // To nobody: that it was tried is all that matters.
        let _ = std::net::UdpSocket::bind("127.0.0.1:0");
    }
    if fault::is("hangs") {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

extern "C" fn ignore(_signal: i32) {}

extern "C" fn crash() {
    std::process::abort();
}

/// A file that nobody closes.
pub(crate) fn leak_file() {
    if let Ok(file) = std::fs::File::open("/dev/null") {
        core::mem::forget(file);
    }
}
