//! The catalog as it is now: looked at again when something in its folders has changed.
//!
//! There is no watcher: a few hundred `stat` calls, not more often than every second and never more than a twentieth of the time, tell the
//! same on every file system. A name that is not known makes the host look at once: somebody may just have put the file there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use onebit_catalog::{Catalog, CatalogPaths, fingerprint};

/// Shortest time between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// Shortest time between two looks because of an unknown name: a client that asks for nonsense must not keep the disk busy.
const PAUSE_UNKNOWN: Duration = Duration::from_millis(200);
/// A look may take this part of the time: 1 / SHARE.
const SHARE: u32 = 20;

/// Holds the catalog.
#[derive(Debug)]
pub(super) struct View {
    paths: CatalogPaths,
    state: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    catalog: Arc<Catalog>,
    fingerprint: u64,
    looked: Instant,
    cost: Duration,
}

impl View {
    pub(super) fn new(paths: CatalogPaths) -> Self {
        let start = Instant::now();
        let fingerprint = fingerprint(&paths);
        let catalog = Arc::new(Catalog::load(&paths));
        report(&catalog, &Catalog::default());
        Self { paths, state: Mutex::new(Seen { catalog, fingerprint, looked: Instant::now(), cost: start.elapsed() }) }
    }

    /// As it was at most a moment ago.
    pub(super) fn now(&self) -> Arc<Catalog> {
        self.after(PAUSE, false)
    }

    /// For a name that was not found.
    pub(super) fn eager(&self) -> Arc<Catalog> {
        self.after(PAUSE_UNKNOWN, false)
    }

    /// Looks again, whatever seems to have changed.
    pub(super) fn again(&self) -> Arc<Catalog> {
        self.after(Duration::ZERO, true)
    }

    fn after(&self, pause: Duration, anyway: bool) -> Arc<Catalog> {
        let mut seen = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !anyway && seen.looked.elapsed() < pause.max(seen.cost * SHARE) {
            return Arc::clone(&seen.catalog);
        }
        let start = Instant::now();
        // Taken before the files are read: what changes meanwhile is seen the next time.
        let fingerprint = fingerprint(&self.paths);
        if anyway || fingerprint != seen.fingerprint {
            let catalog = Catalog::load_after(&self.paths, &seen.catalog);
            report(&catalog, &seen.catalog);
            seen.catalog = Arc::new(catalog);
            seen.fingerprint = fingerprint;
        }
        seen.looked = Instant::now();
        seen.cost = start.elapsed();
        Arc::clone(&seen.catalog)
    }
}

/// Writes what is wrong into the log, each thing once.
fn report(catalog: &Catalog, before: &Catalog) {
    for problem in catalog.problems().iter().filter(|problem| !before.problems().contains(problem)) {
        tracing::warn!(file = %problem.path.display(), line = problem.line, "{}", problem.message);
    }
    for refused in catalog.plugins().refused.iter().filter(|refused| !before.plugins().refused.contains(refused)) {
        tracing::warn!(dir = %refused.dir.display(), "{}", refused.refusal);
    }
    for plugin in catalog.plugins().usable.iter().filter(|plugin| !before.plugins().usable.contains(plugin)) {
        for problem in &plugin.inspection.trust.problems {
            // Most plugins bring no proof, and that is no alarm.
            if problem.is_missing_proof() {
                tracing::info!(plugin = plugin.id(), code = problem.code(), "{problem}");
            } else {
                tracing::warn!(plugin = plugin.id(), code = problem.code(), remedy = problem.remedy(), "{problem}");
            }
        }
    }
}
