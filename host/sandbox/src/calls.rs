//! seccomp: the system calls that computing needs, and no other.
//!
//! A list of what is allowed, because the kernel gets a new call every few months. Three kinds of refusal:
//!
//! * most calls raise SIGSYS; the process's handler (see the loader) counts them and makes them fail with EPERM, so that a library that only
//!   tried goes on, and the host hears of it. Without a handler the process ends, which the host decodes as SIGSYS;
//! * `clone3`, whose arguments a filter cannot see, does not exist, so the C library takes `clone`; and `clone` makes threads only. That, and
//!   what else cannot be a trap, fails quietly with EPERM;
//! * calls whose harm lies in an argument (signals to others, the process's ties, typing into a terminal) are compared by argument.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition as Condition, SeccompFilter,
    SeccompRule as Rule, TargetArch,
};

use crate::Error;

/// Allowed whatever their arguments are.
#[rustfmt::skip]
const ALLOWED: &[libc::c_long] = &[
    // Memory.
    libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect, libc::SYS_madvise, libc::SYS_mincore,
    libc::SYS_msync, libc::SYS_mlock, libc::SYS_mlock2, libc::SYS_munlock, libc::SYS_mlockall, libc::SYS_munlockall, libc::SYS_membarrier,
    libc::SYS_memfd_create, libc::SYS_mbind, libc::SYS_get_mempolicy, libc::SYS_set_mempolicy, libc::SYS_pkey_alloc, libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect,
    // Files; which ones is Landlock's part. Nothing here changes owner, mode or times: Landlock has no rule for those.
    libc::SYS_openat, libc::SYS_openat2, libc::SYS_close, libc::SYS_close_range, libc::SYS_read, libc::SYS_write, libc::SYS_readv,
    libc::SYS_writev, libc::SYS_pread64, libc::SYS_pwrite64, libc::SYS_preadv, libc::SYS_pwritev, libc::SYS_preadv2, libc::SYS_pwritev2,
    libc::SYS_lseek, libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_statfs, libc::SYS_fstatfs, libc::SYS_faccessat,
    libc::SYS_faccessat2, libc::SYS_readlinkat, libc::SYS_getdents64, libc::SYS_getcwd, libc::SYS_chdir, libc::SYS_fchdir,
    libc::SYS_umask, libc::SYS_dup, libc::SYS_dup3, libc::SYS_fcntl, libc::SYS_flock, libc::SYS_fsync, libc::SYS_fdatasync,
    libc::SYS_sync_file_range, libc::SYS_ftruncate, libc::SYS_truncate, libc::SYS_fallocate, libc::SYS_fadvise64, libc::SYS_readahead,
    libc::SYS_copy_file_range, libc::SYS_sendfile, libc::SYS_splice, libc::SYS_mkdirat, libc::SYS_unlinkat, libc::SYS_renameat2,
    // Waiting, and pipes to oneself.
    libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2, libc::SYS_pipe2, libc::SYS_socketpair, libc::SYS_sendto, libc::SYS_recvfrom, libc::SYS_sendmsg, libc::SYS_recvmsg,
    libc::SYS_sendmmsg, libc::SYS_recvmmsg, libc::SYS_shutdown, libc::SYS_getsockopt, libc::SYS_setsockopt, libc::SYS_getsockname,
    libc::SYS_getpeername, libc::SYS_signalfd4, libc::SYS_timerfd_create, libc::SYS_timerfd_settime, libc::SYS_timerfd_gettime,
    // Threads and how they wait for each other.
    libc::SYS_futex, libc::SYS_futex_waitv,
    // futex_wake, futex_wait, futex_requeue: the same numbers on every machine, too new for the libc crate.
    454, 455, 456, libc::SYS_set_robust_list, libc::SYS_get_robust_list, libc::SYS_rseq, libc::SYS_set_tid_address, libc::SYS_exit,
    libc::SYS_exit_group, libc::SYS_sched_yield, libc::SYS_sched_getaffinity, libc::SYS_sched_setaffinity, libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler, libc::SYS_sched_getattr, libc::SYS_sched_get_priority_max, libc::SYS_sched_get_priority_min,
    libc::SYS_getcpu, libc::SYS_getpriority,
    // Signals to oneself.
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_rt_sigsuspend, libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait, libc::SYS_sigaltstack, libc::SYS_restart_syscall,
    // Who one is, what time it is, how much there is.
    libc::SYS_getpid, libc::SYS_gettid, libc::SYS_getppid, libc::SYS_getpgid, libc::SYS_getsid, libc::SYS_getuid, libc::SYS_geteuid,
    libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getresuid, libc::SYS_getresgid, libc::SYS_getgroups, libc::SYS_capget, libc::SYS_uname,
    libc::SYS_sysinfo, libc::SYS_getrusage, libc::SYS_getrlimit, libc::SYS_times, libc::SYS_clock_gettime, libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep, libc::SYS_nanosleep, libc::SYS_gettimeofday, libc::SYS_setitimer, libc::SYS_getitimer,
    libc::SYS_timer_create, libc::SYS_timer_settime, libc::SYS_timer_gettime, libc::SYS_timer_getoverrun, libc::SYS_timer_delete,
    libc::SYS_getrandom,
    // Devices; which ones, and what of them, is Landlock's part.
    libc::SYS_ioctl,
];

/// What x86-64 has besides, from before there was a better one.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ALLOWED_OLD: &[libc::c_long] = &[
    libc::SYS_open, libc::SYS_creat, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink, libc::SYS_getdents,
    libc::SYS_dup2, libc::SYS_pipe, libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_create, libc::SYS_epoll_wait, libc::SYS_eventfd,
    libc::SYS_signalfd, libc::SYS_mkdir, libc::SYS_rmdir, libc::SYS_unlink, libc::SYS_rename, libc::SYS_renameat,
    libc::SYS_arch_prctl, libc::SYS_getpgrp, libc::SYS_time, libc::SYS_alarm, libc::SYS_pause,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLD: &[libc::c_long] = &[];

/// With the network.
const NETWORK: &[libc::c_long] = &[libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4];
/// Families of sockets of the network; the last asks the kernel for addresses. Not those to other programs of this machine.
const FAMILIES: &[libc::c_int] = &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Start a process, and nothing else.
#[cfg(target_arch = "x86_64")]
const PROCESSES: &[libc::c_long] = &[libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const PROCESSES: &[libc::c_long] = &[];

/// What `prctl` may do: names of threads and of memory, questions, and giving up more.
const PRCTL: &[libc::c_int] = &[
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_GET_DUMPABLE,
    libc::PR_CAPBSET_READ,
    libc::PR_GET_SECCOMP,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_SET_TIMERSLACK,
    libc::PR_GET_TIMERSLACK,
    libc::PR_SET_THP_DISABLE,
    libc::PR_GET_THP_DISABLE,
    // PR_SET_VMA: the name of an anonymous mapping; PR_GET_AUXV: what the kernel gave this process to begin with, such as the size of a page.
    0x53_56_4d_41,
    0x41_55_58_56,
];

/// Typing into a terminal as if its user did (TIOCSTI, TIOCLINUX); having the kernel signal somebody else (FIOSETOWN, SIOCSPGRP).
const IOCTLS: &[u64] = &[0x5412, 0x541c, 0x8901, 0x8902];
/// Having the kernel signal somebody else when a file is ready.
const FCNTLS: &[libc::c_int] = &[libc::F_SETOWN, F_SETSIG, F_SETOWN_EX];
const F_SETSIG: libc::c_int = 10;
const F_SETOWN_EX: libc::c_int = 15;

/// Puts the filters up.
pub(crate) fn filter(network: bool) -> Result<(), Error> {
    let failed = |error: &dyn core::fmt::Display| Error::Kernel { layer: "filter of system calls (seccomp)", reason: error.to_string() };
    // The strictest answer of all filters wins, and a trap is stricter than an error: a quiet refusal must be allowed by the list. The list
    // comes last, because it does not allow putting up filters.
    let program = |rules: Result<Rules, _>, other, listed| -> Result<BpfProgram, seccompiler::BackendError> {
        BpfProgram::try_from(SeccompFilter::new(rules?, other, listed, machine())?)
    };
    let refuse = |errno: libc::c_int| SeccompAction::Errno(errno.unsigned_abs());
    let programs = [
        program(Ok(absent()), SeccompAction::Allow, refuse(libc::ENOSYS)),
        program(quiet(), SeccompAction::Allow, refuse(libc::EPERM)),
        program(allowed(network), SeccompAction::Trap, SeccompAction::Allow),
    ];
    for program in programs {
        seccompiler::apply_filter(&program.map_err(|error| failed(&error))?).map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// Whether this kernel filters system calls.
pub(crate) fn offered() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail")
        .is_ok_and(|actions| actions.split_whitespace().any(|action| action == "trap"))
}

fn machine() -> TargetArch {
    #[cfg(target_arch = "x86_64")]
    return TargetArch::x86_64;
    #[cfg(target_arch = "aarch64")]
    return TargetArch::aarch64;
    #[cfg(target_arch = "riscv64")]
    return TargetArch::riscv64;
}

type Rules = BTreeMap<i64, Vec<Rule>>;

fn allowed(network: bool) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = ALLOWED.iter().chain(ALLOWED_OLD).map(|call| (*call, Vec::new())).collect();
    // What another filter refuses quietly, this one must allow.
    rules.extend([libc::SYS_clone, libc::SYS_clone3].into_iter().chain(PROCESSES.iter().copied()).map(|call| (call, Vec::new())));
    if network {
        rules.extend(NETWORK.iter().map(|call| (*call, Vec::new())));
        rules.insert(libc::SYS_socket, any_of(0, FAMILIES)?);
    }
    // Signals: to this process; 0 is its group, which it leads and in which nobody else is.
    let own = std::process::id().cast_signed();
    rules.insert(libc::SYS_kill, any_of(0, &[own, 0])?);
    rules.insert(libc::SYS_tgkill, any_of(0, &[own])?);
    rules.insert(libc::SYS_rt_tgsigqueueinfo, any_of(0, &[own])?);
    // Limits: one's own, and only to read them.
    let only_read = Condition::new(2, Width::Qword, Is::Eq, 0)?;
    let reading = |pid| Rule::new(vec![equals(0, pid)?, only_read.clone()]);
    rules.insert(libc::SYS_prlimit64, vec![reading(0)?, reading(own)?]);
    rules.insert(libc::SYS_prctl, any_of(0, PRCTL)?);
    Ok(rules)
}

/// Fail with EPERM without a word to anybody.
fn quiet() -> Result<Rules, seccompiler::BackendError> {
    let ioctls = IOCTLS.iter().map(|request| Rule::new(vec![Condition::new(1, Width::Dword, Is::Eq, *request)?]));
    let thread = Condition::new(0, Width::Qword, Is::MaskedEq(libc::CLONE_THREAD as u64), 0)?;
    let mut rules: Rules = PROCESSES.iter().map(|call| (*call, Vec::new())).collect();
    rules.extend([
        // The C library blocks all signals while it starts a process: a trap would end the process, where a library can deal with an error.
        (libc::SYS_clone, vec![Rule::new(vec![thread])?]),
        // The handler that counts refusals stays where it is.
        (libc::SYS_rt_sigaction, any_of(0, &[libc::SIGSYS])?),
        (libc::SYS_ioctl, ioctls.collect::<Result<_, _>>()?),
        (libc::SYS_fcntl, any_of(1, FCNTLS)?),
    ]);
    Ok(rules)
}

/// An argument that is an `int` of the kernel's: its upper half means nothing.
fn equals(argument: u8, value: libc::c_int) -> Result<Condition, seccompiler::BackendError> {
    Condition::new(argument, Width::Dword, Is::Eq, u64::from(value.cast_unsigned()))
}

/// One rule for each value.
fn any_of(argument: u8, values: &[libc::c_int]) -> Result<Vec<Rule>, seccompiler::BackendError> {
    values.iter().map(|value| Rule::new(vec![equals(argument, *value)?])).collect()
}

/// Do not exist: the C library then takes `clone`.
fn absent() -> Rules {
    BTreeMap::from([(libc::SYS_clone3, Vec::new())])
}

/// Calls that people should recognise when they are refused: number, name, what it would have done.
#[rustfmt::skip]
const NAMES: &[(libc::c_long, &str, &str)] = &[
    (libc::SYS_execve, "execve", "start a program"),
    (libc::SYS_execveat, "execveat", "start a program"),
    (libc::SYS_socket, "socket", "open a network socket"),
    (libc::SYS_connect, "connect", "connect to somebody"),
    (libc::SYS_bind, "bind", "listen for others"),
    (libc::SYS_kill, "kill", "send a signal to another process"),
    (libc::SYS_tkill, "tkill", "send a signal to another process"),
    (libc::SYS_tgkill, "tgkill", "send a signal to another process"),
    (libc::SYS_pidfd_open, "pidfd_open", "take hold of another process"),
    (libc::SYS_pidfd_send_signal, "pidfd_send_signal", "send a signal to another process"),
    (libc::SYS_ptrace, "ptrace", "control another process"),
    (libc::SYS_process_vm_readv, "process_vm_readv", "read another process's memory"),
    (libc::SYS_process_vm_writev, "process_vm_writev", "change another process's memory"),
    (libc::SYS_io_uring_setup, "io_uring_setup", "do input and output that no filter sees"),
    (libc::SYS_bpf, "bpf", "run code in the kernel"),
    (libc::SYS_perf_event_open, "perf_event_open", "watch the machine"),
    (libc::SYS_userfaultfd, "userfaultfd", "handle page faults"),
    (libc::SYS_mount, "mount", "change the file system"),
    (libc::SYS_unshare, "unshare", "make a namespace"),
    (libc::SYS_setns, "setns", "enter a namespace"),
    (libc::SYS_fchmod, "fchmod", "change a file's mode"),
    (libc::SYS_fchmodat, "fchmodat", "change a file's mode"),
    (libc::SYS_fchown, "fchown", "change a file's owner"),
    (libc::SYS_fchownat, "fchownat", "change a file's owner"),
    (libc::SYS_symlinkat, "symlinkat", "make a link"),
    (libc::SYS_linkat, "linkat", "make a link"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_symlink, "symlink", "make a link"),
    (libc::SYS_utimensat, "utimensat", "change a file's times"),
    (libc::SYS_prctl, "prctl", "change how the process is tied to others"),
    (libc::SYS_setpriority, "setpriority", "change a priority"),
    (libc::SYS_sched_setscheduler, "sched_setscheduler", "change a priority"),
    (libc::SYS_prlimit64, "prlimit64", "change a limit"),
    (libc::SYS_setsid, "setsid", "leave the host's group of processes"),
    (libc::SYS_setpgid, "setpgid", "leave the host's group of processes"),
    (libc::SYS_keyctl, "keyctl", "use the kernel's keys"),
];

/// What a refused call is called, for a log: `execve (start a program)`, or its number.
#[must_use]
pub fn name(call: u32) -> String {
    match NAMES.iter().find(|(number, _, _)| *number == libc::c_long::from(call)) {
        Some((_, name, deed)) => format!("{name} ({deed})"),
        None => format!("system call {call}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_becomes_a_program_that_the_kernel_takes() {
        for network in [false, true] {
            let filter = SeccompFilter::new(allowed(network).unwrap(), SeccompAction::Trap, SeccompAction::Allow, machine()).unwrap();
            let program = BpfProgram::try_from(filter).unwrap();
            // BPF_MAXINSNS.
            assert!(program.len() < 4096, "{} instructions", program.len());
        }
    }

    #[test]
    fn what_has_a_name_because_it_is_refused_is_not_allowed_by_mistake() {
        let by_argument = [libc::SYS_kill, libc::SYS_tgkill, libc::SYS_prctl, libc::SYS_prlimit64];
        let allowed = allowed(false).unwrap();
        for (call, name, _) in NAMES {
            let bare = allowed.get(call).is_some_and(Vec::is_empty);
            assert!(!bare, "{name} is allowed whatever its arguments are");
            assert_eq!(allowed.contains_key(call), by_argument.contains(call), "{name}");
        }
    }

    #[test]
    fn a_refused_call_has_a_name_for_people() {
        assert_eq!(name(libc::SYS_execve as u32), "execve (start a program)");
        assert_eq!(name(100_000), "system call 100000");
    }
}
