//! What a hostile plugin would try: one row each. Every attempt is bounded by itself, so that it does little harm where nothing refuses it.
//!
//! An attempt says how each of its ways ended: `exec: refused (EPERM)` or `exec: ESCAPED (…)`. `TARGET` is a file, a folder or a process that the
//! test gives away; a process may end by it.

use std::ffi::CString;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use libc::{c_long, c_void};

/// What an attempt works on.
pub(crate) struct Victim<'a> {
    /// A path, or the number of a process.
    pub(crate) target: &'a str,
    /// The model file.
    pub(crate) model: &'a Path,
}

impl Victim<'_> {
    fn pid(&self) -> c_long {
        self.target.parse().unwrap_or(-2)
    }

    fn path(&self) -> CString {
        CString::new(self.target).unwrap_or_default()
    }
}

type Way = (&'static str, fn(&Victim<'_>) -> io::Result<()>);

/// Name of the attempt, and its ways.
pub(crate) const ATTEMPTS: &[(&str, &[Way])] = &[
    ("read", &[("open", |v| fs::read(v.target).map(drop)), ("list", |v| fs::read_dir(v.target).map(drop)), ("thread", read_on_a_thread)]),
    (
        "write",
        &[
            ("create", |v| fs::write(v.target, "escaped")),
            ("link", |v| fs::hard_link(v.model, v.target)),
            ("symlink", |v| std::os::unix::fs::symlink("/etc/passwd", v.target)),
            ("mkdir", |v| fs::create_dir(v.target)),
            ("mkfifo", |v| call(libc::SYS_mknodat, [libc::AT_FDCWD.into(), v.path().as_ptr() as c_long, 0o010_644, 0, 0])),
            ("socket", |v| UnixListener::bind(v.target).map(drop)),
        ],
    ),
    (
        "model",
        &[
            ("overwrite", |v| fs::OpenOptions::new().write(true).open(v.model).map(drop)),
            ("truncate", |v| call(libc::SYS_truncate, [c_path(v.model).as_ptr() as c_long, 0, 0, 0, 0])),
            ("remove", |v| fs::remove_file(v.model)),
            ("rename", |v| fs::rename(v.model, v.model.with_extension("moved"))),
            ("chmod", |v| fs::set_permissions(v.model, fs::Permissions::from_mode(0o777))),
            ("chown", |v| std::os::unix::fs::chown(v.model, Some(1), Some(1))),
            ("xattr", |v| {
                call(libc::SYS_setxattr, [c_path(v.model).as_ptr() as c_long, c"user.x".as_ptr() as c_long, c"y".as_ptr() as c_long, 1, 0])
            }),
            ("times", |v| call(libc::SYS_utimensat, [libc::AT_FDCWD.into(), c_path(v.model).as_ptr() as c_long, 0, 0, 0])),
        ],
    ),
    (
        "network",
        &[
            ("tcp", |v| TcpStream::connect(v.target).map(drop)),
            ("listen", |_| TcpListener::bind("127.0.0.1:0").map(drop)),
            ("udp", |_| UdpSocket::bind("127.0.0.1:0").map(drop)),
            ("unix", |_| socket(libc::AF_UNIX, libc::SOCK_STREAM)),
            ("raw", |_| socket(libc::AF_PACKET, libc::SOCK_RAW)),
            ("netlink", |_| socket(libc::AF_NETLINK, libc::SOCK_RAW)),
        ],
    ),
    (
        "exec",
        &[
            ("command", |v| Command::new("/bin/touch").arg(v.target).status().map(drop)),
            ("system", system),
            ("execve", execve),
            ("memfd", |_| {
                // SAFETY: a name that ends with zero.
                let fd = unsafe { libc::memfd_create(c"x".as_ptr(), 0) };
                call(libc::SYS_execveat, [fd.into(), c"".as_ptr() as c_long, 0, 0, libc::AT_EMPTY_PATH.into()])
            }),
        ],
    ),
    (
        "fork",
        &[
            ("fork", |_| bomb(libc::SYS_fork, 0)),
            ("vfork", |_| bomb(libc::SYS_clone, (libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD).into())),
            ("clone", |_| bomb(libc::SYS_clone, libc::SIGCHLD.into())),
            ("clone3", |_| {
                // struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, …
                let mut args = [0_u64; 11];
                args[4] = libc::SIGCHLD as u64;
                child(|| raw(libc::SYS_clone3, [args.as_ptr() as c_long, size_of_val(&args) as c_long, 0, 0, 0]))
            }),
        ],
    ),
    (
        "kill",
        &[
            ("kill", |v| call(libc::SYS_kill, [v.pid(), libc::SIGKILL.into(), 0, 0, 0])),
            ("tkill", |v| call(libc::SYS_tkill, [v.pid(), libc::SIGKILL.into(), 0, 0, 0])),
            ("tgkill", |v| call(libc::SYS_tgkill, [v.pid(), v.pid(), libc::SIGKILL.into(), 0, 0])),
            ("pidfd", |v| call(libc::SYS_pidfd_open, [v.pid(), 0, 0, 0, 0])),
            ("parent", |_| {
                // SAFETY: no arguments.
                let parent = unsafe { libc::getppid() };
                call(libc::SYS_kill, [parent.into(), 0, 0, 0, 0])
            }),
            ("everybody", |_| call(libc::SYS_kill, [-1, 0, 0, 0, 0])),
            ("by file", kill_by_file),
        ],
    ),
    (
        "spy",
        &[
            ("memory", read_memory),
            ("mem file", |v| fs::File::open(format!("/proc/{}/mem", v.target)).map(drop)),
            ("environ", |v| fs::read(format!("/proc/{}/environ", v.target)).map(drop)),
            ("maps", |v| fs::read(format!("/proc/{}/maps", v.target)).map(drop)),
            ("ptrace", |v| call(libc::SYS_ptrace, [libc::PTRACE_ATTACH.into(), v.pid(), 0, 0, 0])),
            ("pidfd_getfd", |_| call(libc::SYS_pidfd_getfd, [0, 0, 0, 0, 0])),
            ("processes", |_| fs::read_dir("/proc").map(drop)),
            ("parent", |_| {
                // SAFETY: no arguments.
                fs::read(format!("/proc/{}/environ", unsafe { libc::getppid() })).map(drop)
            }),
        ],
    ),
    (
        "fill",
        &[
            ("tmp", |_| fill(Path::new("/tmp"))),
            ("var", |_| fill(Path::new("/var/tmp"))),
            ("shm", |_| fill(Path::new("/dev/shm"))),
            ("target", |v| fill(Path::new(v.target))),
            ("models", |v| fill(v.model.parent().unwrap_or(Path::new("/")))),
        ],
    ),
    (
        "kernel",
        &[
            ("io_uring", |_| call(libc::SYS_io_uring_setup, [1, [0_u64; 16].as_ptr() as c_long, 0, 0, 0])),
            ("bpf", |_| call(libc::SYS_bpf, [0, [0_u64; 16].as_ptr() as c_long, 72, 0, 0])),
            ("perf", |_| call(libc::SYS_perf_event_open, [[0_u64; 16].as_ptr() as c_long, 0, -1, -1, 0])),
            ("userfaultfd", |_| call(libc::SYS_userfaultfd, [0; 5])),
            ("unshare", |_| call(libc::SYS_unshare, [libc::CLONE_NEWUSER.into(), 0, 0, 0, 0])),
            ("setns", |_| call(libc::SYS_setns, [0; 5])),
            ("mount", |v| {
                call(libc::SYS_mount, [c"none".as_ptr() as c_long, v.path().as_ptr() as c_long, c"tmpfs".as_ptr() as c_long, 0, 0])
            }),
            ("chroot", |_| call(libc::SYS_chroot, [c"/".as_ptr() as c_long, 0, 0, 0, 0])),
            ("keyctl", |_| call(libc::SYS_keyctl, [0, -3, 0, 0, 0])),
            ("personality", |_| call(libc::SYS_personality, [0x004_0000, 0, 0, 0, 0])),
            ("module", |_| call(libc::SYS_init_module, [0; 5])),
            ("reboot", |_| call(libc::SYS_reboot, [0; 5])),
            ("setuid", |_| call(libc::SYS_setuid, [12345, 0, 0, 0, 0])),
            ("capset", |_| call(libc::SYS_capset, [0; 5])),
        ],
    ),
    (
        "untie",
        &[
            ("pdeathsig", |_| call(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG.into(), 0, 0, 0, 0])),
            ("setsid", |_| call(libc::SYS_setsid, [0; 5])),
            ("setpgid", |_| call(libc::SYS_setpgid, [0; 5])),
            ("limits", |_| call(libc::SYS_prlimit64, [0, libc::RLIMIT_CORE as c_long, [u64::MAX; 2].as_ptr() as c_long, 0, 0])),
            ("oom score", |_| fs::write("/proc/self/oom_score_adj", "-1000")),
            ("handler", |_| {
                // SAFETY: the default action for a signal.
                let before = unsafe { libc::signal(libc::SIGSYS, libc::SIG_DFL) };
                if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
            }),
            ("seccomp", |_| call(libc::SYS_seccomp, [1, 0, 0, 0, 0])),
            ("priority", |_| call(libc::SYS_setpriority, [0, 0, -5, 0, 0])),
        ],
    ),
    (
        "devices",
        &[
            ("mem", |_| fs::File::open("/dev/mem").map(drop)),
            ("kmsg", |_| fs::File::open("/dev/kmsg").map(drop)),
            ("disk", |_| fs::File::open("/dev/vda").map(drop)),
            ("tty", |_| fs::File::open("/dev/tty").map(drop)),
            ("ptmx", |_| fs::File::open("/dev/ptmx").map(drop)),
            ("sysctl", |_| fs::OpenOptions::new().write(true).open("/proc/sys/kernel/core_pattern").map(drop)),
            ("sysfs", |_| fs::OpenOptions::new().write(true).open("/sys/kernel/mm/transparent_hugepage/enabled").map(drop)),
            ("tiocsti", |_| call(libc::SYS_ioctl, [2, libc::TIOCSTI as c_long, c"x".as_ptr() as c_long, 0, 0])),
        ],
    ),
    // This works: its own descriptors are open to it. What the host makes of it is the question.
    ("forge", &[("frame", forge)]),
    // These two work, up to a limit, and wait there to be ended.
    ("hoard", &[("memory", hoard)]),
    ("keep", &[("file", keep)]),
    (
        "secrets",
        &[
            ("key", |_| variable("ONEBIT_API_KEY")),
            ("token", |_| variable("HF_TOKEN")),
            ("path", |_| variable("PATH")),
            ("descriptors", inherited),
        ],
    ),
];

/// Tries all ways of an attempt; one line for each.
pub(crate) fn attempt(name: &str, victim: &Victim<'_>) -> Option<String> {
    let (_, ways) = ATTEMPTS.iter().find(|(known, _)| *known == name)?;
    let lines = ways.iter().map(|(way, try_it)| match try_it(victim) {
        Ok(()) => format!("{way}: ESCAPED"),
        Err(error) => match error.raw_os_error() {
            Some(number) => format!("{way}: refused ({number})"),
            None => format!("{way}: refused ({error})"),
        },
    });
    Some(lines.collect::<Vec<_>>().join("; "))
}

fn raw(number: c_long, arguments: [c_long; 5]) -> c_long {
    let [a, b, c, d, e] = arguments;
    // SAFETY: what the kernel does with wrong arguments is to refuse them; pointers are to live values or null.
    unsafe { libc::syscall(number, a, b, c, d, e) }
}

fn call(number: c_long, arguments: [c_long; 5]) -> io::Result<()> {
    if raw(number, arguments) < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).unwrap_or_default()
}

fn socket(family: i32, kind: i32) -> io::Result<()> {
    call(libc::SYS_socket, [family.into(), kind.into(), 0, 0, 0])
}

fn read_on_a_thread(victim: &Victim<'_>) -> io::Result<()> {
    let path = victim.target.to_owned();
    std::thread::spawn(move || fs::File::open(path)?.read(&mut [0; 1]).map(drop)).join().unwrap_or(Ok(()))
}

fn system(victim: &Victim<'_>) -> io::Result<()> {
    let command = CString::new(format!("touch {}", victim.target)).unwrap_or_default();
    // SAFETY: a text that ends with zero.
    match unsafe { libc::system(command.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Replaces this process if it can; then the test sees the file and no answer.
fn execve(victim: &Victim<'_>) -> io::Result<()> {
    let target = victim.path();
    let arguments = [c"touch".as_ptr(), target.as_ptr(), core::ptr::null()];
    call(libc::SYS_execve, [c"/bin/touch".as_ptr() as c_long, arguments.as_ptr() as c_long, 0, 0, 0])
}

/// Starts up to 64 processes that end at once.
fn bomb(number: c_long, flags: c_long) -> io::Result<()> {
    for _ in 0..64 {
        child(|| raw(number, [flags, 0, 0, 0, 0]))?;
    }
    Ok(())
}

fn child(start: impl FnOnce() -> c_long) -> io::Result<()> {
    match start() {
        0 => {
            // The child. SAFETY: ends it without running anything of this process.
            unsafe { libc::_exit(0) }
        }
        pid if pid > 0 => {
            // SAFETY: waits for a child; the status may be null.
            unsafe { libc::waitpid(pid as i32, core::ptr::null_mut(), 0) };
            Ok(())
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the kernel send the signal when a pipe can be read.
fn kill_by_file(victim: &Victim<'_>) -> io::Result<()> {
    const F_SETSIG: i32 = 10;
    let (mut reader, mut writer) = io::pipe()?;
    for (command, value) in
        [(F_SETSIG, libc::SIGKILL), (libc::F_SETOWN, victim.pid() as i32), (libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK)]
    {
        call(libc::SYS_fcntl, [reader.as_raw_fd().into(), command.into(), value.into(), 0, 0])?;
    }
    writer.write_all(b"x")?;
    reader.read(&mut [0; 1]).map(drop)
}

fn read_memory(victim: &Victim<'_>) -> io::Result<()> {
    let mut byte = 0_u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast::<c_void>(), iov_len: 1 };
    // Where programs without address randomisation begin; whether something is there is not the question.
    let remote = libc::iovec { iov_base: core::ptr::without_provenance_mut(0x40_0000), iov_len: 1 };
    match call(libc::SYS_process_vm_readv, [victim.pid(), (&raw const local) as c_long, 1, (&raw const remote) as c_long, 1]) {
        // Allowed, and nothing there.
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(()),
        other => other,
    }
}

/// Writes up to 64 MiB.
fn fill(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!("onebit-hostile-{}", std::process::id()));
    let mut file = fs::File::create(&path)?;
    let wrote = (0..64).try_for_each(|_| file.write_all(&vec![1; 1 << 20]));
    fs::remove_file(&path)?;
    wrote
}

/// Takes up to 1 GiB of memory and holds it.
fn hoard(_: &Victim<'_>) -> io::Result<()> {
    let mut held = Vec::new();
    for _ in 0..1024 {
        held.push(vec![1_u8; 1 << 20]);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Ok(())
}

/// Keeps up to 16 MiB in a folder in which it may.
fn keep(victim: &Victim<'_>) -> io::Result<()> {
    let mut file = fs::File::create(Path::new(victim.target).join("kept"))?;
    (0..16).try_for_each(|_| file.write_all(&vec![1; 1 << 20]))?;
    std::thread::sleep(std::time::Duration::from_secs(5));
    Ok(())
}

/// Writes into the connection to the host what is no message.
fn forge(_: &Victim<'_>) -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")?.flatten() {
        if fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:")) {
            let fd: c_long = entry.file_name().to_string_lossy().parse().unwrap_or(-1);
            call(libc::SYS_write, [fd, b"\x08\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff".as_ptr() as c_long, 12, 0, 0])?;
        }
    }
    Ok(())
}

fn variable(name: &str) -> io::Result<()> {
    match std::env::var_os(name) {
        Some(_) => Ok(()),
        None => Err(io::Error::other("not set")),
    }
}

/// Descriptors of the host that this process should not have: more than the streams, its socket and what reads the folder.
fn inherited(_: &Victim<'_>) -> io::Result<()> {
    let open = fs::read_dir("/proc/self/fd")?.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let sockets = open.filter(|to| to.to_string_lossy().starts_with("socket:")).count();
    // One socket to the host, held once for reading and once for writing.
    if sockets > 2 { Ok(()) } else { Err(io::Error::other(format!("{sockets} sockets"))) }
}
