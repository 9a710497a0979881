//! Whether this process works for the system instead of a person: then no user's folder may bring it code.
//!
//! A service finds plugins, manifests, configuration and keys where administrators put them. A folder that a user (or the service itself, once
//! something in it has gone wrong) can write to would be a way to stay. For a program with more rights than who started it, the same holds
//! with more force: its caller chose the environment, so the environment chooses nothing.

use std::ffi::OsString;
use std::fmt;

/// Users that belong to the system by the numbers that distributions give.
const SYSTEM_USERS: std::ops::RangeInclusive<u32> = 1..=999;
/// `DynamicUser=` of systemd.
const DYNAMIC_USERS: std::ops::RangeInclusive<u32> = 61_184..=65_519;
const NOBODY: u32 = 65_534;

/// Why user folders are not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// It has rights that its caller has not: set-user-id, or file capabilities.
    Elevated,
    /// It is a unit of the system's service manager.
    Unit,
    /// Its user is no person.
    SystemUser(u32),
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elevated => f.write_str("the program has rights of its own (set-user-id, or file capabilities)"),
            Self::Unit => f.write_str("it runs as a system service"),
            Self::SystemUser(uid) => write!(f, "user {uid} belongs to the system"),
        }
    }
}

/// What is known of the process.
pub struct Facts<'a> {
    /// Effective user.
    pub uid: u32,
    /// Process id.
    pub pid: u32,
    /// The kernel says that the caller is not to be trusted (`AT_SECURE`).
    pub secure: bool,
    /// `/proc/self/cgroup`.
    pub cgroup: &'a str,
    /// Environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Service {
    /// Of this process.
    pub fn of_this_process() -> Option<Self> {
        Self::from(&Facts {
            uid: rustix::process::geteuid().as_raw(),
            pid: std::process::id(),
            secure: onebit_loader::trust::elevated(),
            cgroup: &std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
            variable: &|name| std::env::var_os(name),
        })
    }

    fn from(facts: &Facts<'_>) -> Option<Self> {
        if facts.secure {
            return Some(Self::Elevated);
        }
        if is_unit(facts) {
            return Some(Self::Unit);
        }
        let of_system = SYSTEM_USERS.contains(&facts.uid) || DYNAMIC_USERS.contains(&facts.uid) || facts.uid == NOBODY;
        of_system.then_some(Self::SystemUser(facts.uid))
    }
}

/// `INVOCATION_ID` alone says little: a terminal that a user's own service manager started hands it on to everything in it. A unit of the system
/// has no `MANAGERPID`, and either systemd started this very process, or it is in the system's slice.
fn is_unit(facts: &Facts<'_>) -> bool {
    let set = |name| (facts.variable)(name).is_some();
    let started = (facts.variable)("SYSTEMD_EXEC_PID").is_some_and(|pid| pid == facts.pid.to_string().as_str());
    let in_slice = facts.cgroup.lines().any(|line| line.rsplit(':').next().is_some_and(|path| path.starts_with("/system.slice/")));
    set("INVOCATION_ID") && !set("MANAGERPID") && (started || in_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: &str = "0::/system.slice/onebit-host.service\n";
    const SESSION: &str = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/terminal.scope\n";

    fn service(uid: u32, secure: bool, cgroup: &str, variables: &[(&str, &str)]) -> Option<Service> {
        let variable = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        Service::from(&Facts { uid, pid: 42, secure, cgroup, variable: &variable })
    }

    #[test]
    fn a_person_has_folders_also_in_a_terminal_that_a_service_manager_started() {
        assert_eq!(service(1000, false, SESSION, &[]), None);
        assert_eq!(service(1000, false, SESSION, &[("INVOCATION_ID", "x"), ("MANAGERPID", "7"), ("SYSTEMD_EXEC_PID", "42")]), None);
        // The terminal's own process number, not ours.
        assert_eq!(service(1000, false, SESSION, &[("INVOCATION_ID", "x"), ("SYSTEMD_EXEC_PID", "7")]), None);
        // Root at work, and root in a container.
        assert_eq!(service(0, false, SESSION, &[]), None);
        assert_eq!(service(0, false, "0::/\n", &[]), None);
    }

    #[test]
    fn units_of_the_system_have_none_whoever_they_run_as() {
        for uid in [0, 1000] {
            assert_eq!(service(uid, false, UNIT, &[("INVOCATION_ID", "x")]), Some(Service::Unit));
            // In a slice of its own, started by systemd itself.
            assert_eq!(
                service(uid, false, "0::/ai.slice/x.service", &[("INVOCATION_ID", "x"), ("SYSTEMD_EXEC_PID", "42")]),
                Some(Service::Unit)
            );
        }
        // A shell that somebody opened inside of a service's slice (ssh of some systems) is no unit.
        assert_eq!(service(1000, false, UNIT, &[]), None);
    }

    #[test]
    fn users_that_are_no_persons_have_none() {
        for uid in [1, 999, 61_184, 65_519, 65_534] {
            assert_eq!(service(uid, false, "", &[]), Some(Service::SystemUser(uid)));
        }
        for uid in [1000, 60_000, 65_535, 100_000] {
            assert_eq!(service(uid, false, "", &[]), None);
        }
    }

    #[test]
    fn a_program_with_rights_of_its_own_trusts_nothing_of_its_caller() {
        assert_eq!(service(1000, true, SESSION, &[]), Some(Service::Elevated));
    }
}
