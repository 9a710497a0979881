//! From the errors of the libraries to exit codes: one place, one line each.

use onebit_http::ServeError;
use onebit_install::InstallError;
use onebit_worker::{HostError, WorkerError};

use super::{Exit, Failure};

fn of_host(error: &HostError) -> Exit {
    match error {
        HostError::UnknownModel { .. } | HostError::NotDownloaded { .. } => Exit::NotFound,
        HostError::Broken { .. } | HostError::WrongFile { .. } => Exit::Corrupt,
        HostError::Unservable { .. } => Exit::Unservable,
        HostError::Worker(error) => of_worker(error),
        _ => Exit::Other,
    }
}

fn of_worker(error: &WorkerError) -> Exit {
    match error {
        WorkerError::Load { .. } | WorkerError::NoMemory { .. } => Exit::Unservable,
        WorkerError::Died(_)
        | WorkerError::Hang { .. }
        | WorkerError::CircuitOpen { .. }
        | WorkerError::Protocol { .. }
        | WorkerError::Spawn { .. } => Exit::WorkerDied,
        _ => Exit::Other,
    }
}

fn of_serve(error: &ServeError) -> Exit {
    match error {
        ServeError::InUse { .. } => Exit::PortInUse,
        ServeError::File { error, .. } => Exit::of_io(error),
        ServeError::NoAddress
        | ServeError::Address(_)
        | ServeError::Open(_)
        | ServeError::Key
        | ServeError::Keys { .. }
        | ServeError::Tls { .. }
        | ServeError::Origin(_) => Exit::Usage,
        _ => Exit::Other,
    }
}

fn of_install(error: &InstallError) -> Exit {
    match error {
        InstallError::Io { error, .. } => Exit::of_io(error),
        InstallError::NoArchive { .. }
        | InstallError::Damaged(_)
        | InstallError::Path { .. }
        | InstallError::Kind { .. }
        | InstallError::Bounds(_)
        | InstallError::Toml { .. }
        | InstallError::NoPlugin => Exit::Corrupt,
        InstallError::NotThere { .. } | InstallError::NoPrevious { .. } => Exit::NotFound,
        _ => Exit::Other,
    }
}

impl From<InstallError> for Failure {
    fn from(error: InstallError) -> Self {
        let failure = Failure::new(of_install(&error), error.to_string().trim_end()).caused_by(&error);
        match &error {
            InstallError::NotOurs { dir } => failure.next(format!(
                "If a package brought it, remove the package (Debian: dpkg -S {0} names it). Else remove the folder yourself: rm -r {0}",
                dir.display()
            )),
            InstallError::NotThere { .. } | InstallError::NoPrevious { .. } => {
                failure.next("`onebit-host plugin list` shows what is installed, where, and which previous versions are kept.")
            }
            InstallError::Unsealable(problem) => failure.next(problem.remedy()),
            InstallError::Refused(_) => failure.next("Nothing was installed or changed."),
            _ => failure,
        }
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        let failure = Failure::new(of_host(&error), &error).caused_by(&error);
        match &error {
            // Their sentences end with what to do.
            HostError::UnknownModel { .. }
            | HostError::NotDownloaded { .. }
            | HostError::Unservable { .. }
            | HostError::WrongFile { .. } => failure,
            HostError::Broken { .. } => failure.next("Repair the file, or take it away."),
            HostError::Worker(worker) => advised(failure, worker),
            _ => failure,
        }
    }
}

impl From<WorkerError> for Failure {
    fn from(error: WorkerError) -> Self {
        let failure = Failure::new(of_worker(&error), &error).caused_by(&error);
        advised(failure, &error)
    }
}

fn advised(failure: Failure, error: &WorkerError) -> Failure {
    match error {
        WorkerError::Died(_) | WorkerError::Hang { .. } => failure
            .next("The next try starts it anew. If it happens again, choose another plugin or device in a manifest, or --device cpu."),
        WorkerError::Load { .. } => failure.next("`onebit-host explain MODEL` shows what was chosen and why."),
        _ => failure,
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let failure = Failure::new(of_serve(&error), &error).caused_by(&error);
        match &error {
            ServeError::File { .. } | ServeError::Keys { .. } | ServeError::Tls { .. } => {
                failure.next("Nothing was started: a server that does not know who may call, or how to hide it, would be open.")
            }
            _ => failure,
        }
    }
}
