//! The whole host without HTTP: which models there are, what serves each, and a lease on one.
//!
//! ```text
//! view (catalog) ─ choose ─ launch spec ─ supervisor ─ lease
//!                    ↑ answers: prober, free memory
//! ```
//!
//! A model that is loaded, or about to be, keeps its choice: free memory and devices are looked at when something has to be started, not with
//! every request. If what was chosen fails while it loads, the manifest's declared fallbacks take its place, and every answer says so;
//! without a declared fallback the failure is the answer.

#![allow(
    clippy::result_large_err,
    reason = "an error is made once for a failed request, not in a loop; its fields are what the API and the terminal show"
)]

mod answers;
mod config;
mod error;
mod launch;
mod models;
mod setbacks;
mod summary;
mod view;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use onebit_catalog::{Catalog, Explanation, Failed, ModelEntry, Problem, State, choose};
use onebit_loader::devices::DeviceList;
use onebit_sandbox::Confinement;

pub use config::{HostConfig, LeaseOptions};
pub use error::HostError;
pub use summary::{ModelState, ModelSummary, PluginOutcome, PluginReport};

use crate::error::WorkerError;
use crate::probe::Prober;
use crate::spec::LaunchSpec;
use crate::supervisor::{Lease, Lifecycle, Supervisor, WorkerStatus};
use answers::Now;
use setbacks::Setbacks;
use view::View;

/// How old the device list may be when a model is chosen, if only a driver knows how much memory is free.
const DEVICES_AGE: Duration = Duration::from_secs(5);

/// A host. Clones share it.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    config: HostConfig,
    view: View,
    prober: Prober,
    supervisor: Supervisor,
    plans: Mutex<HashMap<String, Plan>>,
    /// One choice at a time for each model.
    choosing: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    setbacks: Setbacks,
    /// One change of the models at a time.
    changing: Mutex<()>,
    /// Models' files that were found to be what their manifests mean.
    verified: Mutex<HashMap<PathBuf, onebit_catalog::Stamp>>,
    /// What this kernel can confine plugins with.
    offered: Confinement,
}

/// What was chosen for a model, and from what.
#[derive(Clone)]
struct Plan {
    catalog: Arc<Catalog>,
    spec: LaunchSpec,
}

impl Host {
    /// Looks through the folders. No plugin is asked, no process is started. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// There is no runtime.
    pub fn start(config: HostConfig) -> Result<Self, HostError> {
        let handle = tokio::runtime::Handle::try_current()
            .map_err(|error| HostError::Internal(format!("the host needs a tokio runtime to start on: {error}")))?;
        let supervisor = Supervisor::new_on(
            handle,
            crate::SupervisorConfig { exe: config.exe.clone(), trust: config.trust.clone(), ..config.supervisor.clone() },
        );
        let probe =
            crate::probe::ProbeConfig { exe: config.exe.clone(), sandbox: config.supervisor.sandbox.clone(), ..config.probe.clone() };
        let inner = Inner {
            view: View::new(config.paths()),
            prober: Prober::new(probe, config.cache_dir.clone()),
            supervisor,
            plans: Mutex::default(),
            choosing: Mutex::default(),
            setbacks: Setbacks::default(),
            changing: Mutex::default(),
            verified: Mutex::default(),
            offered: onebit_sandbox::offered(),
            config,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What confines plugins on this kernel, and whether nothing less will do.
    pub fn sandbox(&self) -> (&Confinement, bool) {
        (&self.inner.offered, self.inner.config.supervisor.sandbox.require)
    }

    /// Plugins that a setting of the sandbox names and that are not there: the setting, and the name. It changes nothing.
    pub fn misnamed(&self) -> Vec<(&'static str, String)> {
        let seen = self.inner.view.now();
        let plugins = seen.plugins();
        let known = |id: &str| {
            plugins.usable.iter().any(|entry| entry.id() == id) || plugins.refused.iter().any(|refused| refused.refusal.plugin == id)
        };
        let named = self.inner.config.supervisor.sandbox.named().filter(|(_, id)| !known(id));
        named.map(|(setting, id)| (setting, id.to_owned())).collect()
    }

    /// All models, by name; those that cannot be served too.
    pub fn models(&self) -> Vec<ModelSummary> {
        self.inner.view.now().models().iter().map(ModelSummary::of).collect()
    }

    /// One model, by any of its names.
    ///
    /// # Errors
    /// [`HostError::UnknownModel`].
    pub fn model(&self, name: &str) -> Result<ModelSummary, HostError> {
        self.inner.find(name).map(|(_, entry)| ModelSummary::of(&entry))
    }

    /// Everything that is wrong with manifests and model files.
    pub fn problems(&self) -> Vec<Problem> {
        self.inner.view.now().problems().to_vec()
    }

    /// Which plugin on which device would serve the model now, and why not the others. Asks all plugins that could.
    ///
    /// # Errors
    /// [`HostError::UnknownModel`]; every other obstacle is in the explanation.
    pub async fn explain(&self, name: &str) -> Result<Explanation, HostError> {
        let (catalog, entry) = self.inner.find(name)?;
        self.blocking(move |inner| inner.choose(&catalog, &entry, inner.setbacks.of(&entry.name), true)).await
    }

    /// Waits until the model is loaded, loading it if need be, and keeps it loaded as long as the lease lives.
    ///
    /// Dropping the future leaves the queue.
    ///
    /// # Errors
    /// Every [`HostError`].
    pub async fn lease(&self, name: &str, options: LeaseOptions) -> Result<Lease, HostError> {
        let start = Instant::now();
        let (catalog, entry) = self.inner.find(name)?;
        let model = entry.name.clone();
        let work = self.lease_model(catalog, entry, options);
        match options.deadline {
            None => work.await,
            Some(deadline) => match tokio::time::timeout_at(deadline.into(), work).await {
                Ok(lease) => lease.map(|lease| lease.by(deadline.into())),
                Err(_) => Err(HostError::Deadline { model, waited: start.elapsed() }),
            },
        }
    }

    async fn lease_model(&self, catalog: Arc<Catalog>, entry: Arc<ModelEntry>, options: LeaseOptions) -> Result<Lease, HostError> {
        self.inner.servable(&entry)?;
        loop {
            let mut spec = self.plan(&catalog, &entry).await?;
            if let Some(keep_alive) = options.keep_alive {
                spec.keep_alive = keep_alive;
            }
            // Hashing and loading both read the file; one after the other would take twice as long.
            let (verified, lease) = tokio::join!(self.verify(&entry), self.inner.supervisor.lease(spec.clone()));
            if let Err(wrong) = verified {
                drop(lease);
                self.inner.supervisor.unload(&entry.name).await;
                return Err(wrong);
            }
            match lease {
                Ok(lease) => return Ok(lease),
                Err(error) if self.falls_back(&entry, &spec, &error) => {
                    // The choice that failed may have been the last. Then its failure is the answer, and the next request tries it
                    // again: how often a worker may crash is for the supervisor to say.
                    if matches!(self.plan(&catalog, &entry).await, Err(HostError::Unservable { .. })) {
                        self.inner.setbacks.take_back(&entry.name);
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether a declared fallback takes over from `spec`, which failed with `error`. Notes the failure if so.
    fn falls_back(&self, entry: &ModelEntry, spec: &LaunchSpec, error: &WorkerError) -> bool {
        // A full queue, a host that goes down or a broken installation is no failure of the choice.
        let of_the_choice = matches!(
            error,
            WorkerError::Load { .. }
                | WorkerError::Died(_)
                | WorkerError::Hang { .. }
                | WorkerError::CircuitOpen { .. }
                | WorkerError::NoMemory { .. }
        );
        if !of_the_choice || !entry.serve().iter().any(|serve| serve.fallback) {
            return false;
        }
        let failed = Failed {
            plugin: spec.plugin_id.clone(),
            version: spec.plugin_version.clone(),
            device: spec.device.id.clone(),
            reason: error.to_string(),
        };
        tracing::warn!(model = entry.name, plugin = failed.plugin, device = failed.device, %error, "failed to load; the manifest's fallbacks are tried");
        self.inner.lock_plans().remove(&entry.name);
        self.inner.setbacks.note(&entry.name, failed, matches!(error, WorkerError::NoMemory { .. }))
    }

    /// How all models that are loaded, or on their way, are: read from the workers' real state.
    pub fn status(&self) -> Vec<WorkerStatus> {
        self.inner.supervisor.status()
    }

    /// Calls `observer` for everything that happens to workers from now on. It must be quick.
    pub fn observe(&self, observer: impl Fn(&Lifecycle) + Send + Sync + 'static) {
        self.inner.supervisor.observe(observer);
    }

    /// Ends the worker of a model; its running answers may finish. False if it was not loaded.
    ///
    /// # Errors
    /// [`HostError::UnknownModel`].
    pub async fn unload(&self, name: &str) -> Result<bool, HostError> {
        let model = match self.inner.find(name) {
            Ok((_, entry)) => entry.name.clone(),
            // A model whose file has been removed meanwhile can still be running.
            Err(_) if self.status().iter().any(|worker| worker.model == name) => name.to_owned(),
            Err(error) => return Err(error),
        };
        self.inner.lock_plans().remove(&model);
        Ok(self.inner.supervisor.unload(&model).await)
    }

    /// Chooses anew and loads; a running worker serves until the new one is up. If the new one fails the old one stays.
    ///
    /// # Errors
    /// Every [`HostError`].
    pub async fn reload(&self, name: &str) -> Result<(), HostError> {
        self.inner.view.again();
        let (catalog, entry) = self.inner.find(name)?;
        self.inner.servable(&entry)?;
        self.inner.setbacks.forget(&entry.name);
        let spec = self.choose_spec(&catalog, &entry).await?;
        self.verify(&entry).await?;
        self.inner.supervisor.reload(spec.clone()).await?;
        self.inner.lock_plans().insert(entry.name.clone(), Plan { catalog, spec });
        Ok(())
    }

    /// All plugins, what came of each, and what each says of each device. Asks those that were not asked before.
    ///
    /// # Errors
    /// [`HostError::Internal`].
    pub async fn plugins(&self) -> Result<Vec<PluginReport>, HostError> {
        let catalog = self.inner.view.now();
        self.blocking(move |inner| inner.plugin_reports(&catalog)).await
    }

    /// The devices of this machine.
    ///
    /// # Errors
    /// [`HostError::Internal`].
    pub async fn devices(&self) -> Result<Arc<DeviceList>, HostError> {
        self.blocking(|inner| inner.prober.devices()).await
    }

    /// Forgets every answer of a plugin, failures too, and looks through all folders again. Loaded models stay.
    ///
    /// # Errors
    /// [`HostError::Internal`].
    pub async fn rescan(&self) -> Result<(), HostError> {
        self.blocking(|inner| {
            inner.prober.forget();
            inner.setbacks.forget_all();
            inner.view.again();
        })
        .await
    }

    /// Takes no more requests, lets running answers finish within `patience`, and ends all workers.
    pub async fn drain(&self, patience: Duration) {
        self.inner.supervisor.drain(patience).await;
    }

    /// The keeper of the workers, for observers and queue depths.
    pub fn supervisor(&self) -> &Supervisor {
        &self.inner.supervisor
    }

    /// What the host was told.
    pub fn config(&self) -> &HostConfig {
        &self.inner.config
    }

    /// The specification to lease: the one of the running worker as long as nothing has changed, else a new choice.
    async fn plan(&self, catalog: &Arc<Catalog>, entry: &Arc<ModelEntry>) -> Result<LaunchSpec, HostError> {
        if let Some(spec) = self.inner.planned(catalog, entry) {
            return Ok(spec);
        }
        let turn = {
            let mut choosing = self.inner.choosing.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(choosing.entry(entry.name.clone()).or_default())
        };
        let _turn = turn.lock().await;
        // Somebody may have chosen while this request waited for its turn; the worker need not have started yet.
        if let Some(plan) = self.inner.lock_plans().get(&entry.name).filter(|plan| Arc::ptr_eq(&plan.catalog, catalog))
            && self.inner.supervisor.depth(&entry.name) > 0
        {
            return Ok(plan.spec.clone());
        }
        let spec = self.choose_spec(catalog, entry).await?;
        self.inner.lock_plans().insert(entry.name.clone(), Plan { catalog: Arc::clone(catalog), spec: spec.clone() });
        Ok(spec)
    }

    async fn choose_spec(&self, catalog: &Arc<Catalog>, entry: &Arc<ModelEntry>) -> Result<LaunchSpec, HostError> {
        let failed = self.inner.setbacks.of(&entry.name);
        let (catalog, model) = (Arc::clone(catalog), Arc::clone(entry));
        let choose = move |inner: &Inner| {
            let explanation = inner.choose(&catalog, &model, failed, false);
            let chosen =
                explanation.choice.as_ref().and_then(|choice| catalog.plugins().usable.iter().find(|entry| entry.dir == choice.plugin_dir));
            (chosen.map(|plugin| inner.prober.seen(plugin)).unwrap_or_default(), explanation)
        };
        let (seen, mut explanation) = self.blocking(choose).await?;
        let Some(choice) = explanation.choice.take() else {
            return Err(HostError::Unservable { explanation: Box::new(explanation) });
        };
        let stated = entry.manifest.as_ref().and_then(|manifest| manifest.defaults.keep_alive);
        tracing::info!(
            model = entry.name,
            plugin = choice.plugin,
            version = choice.version,
            device = choice.device.id,
            context = choice.context,
            note = choice.fallback_note,
            "chosen"
        );
        Ok(launch::spec(entry, choice, seen, stated.unwrap_or(self.inner.config.keep_alive)))
    }

    /// Compares the file's hash with the manifest's, once for each file.
    async fn verify(&self, entry: &Arc<ModelEntry>) -> Result<(), HostError> {
        let Some((expected, file)) = entry.manifest.as_ref().and_then(|manifest| manifest.sha256.clone()).zip(entry.file()) else {
            return Ok(());
        };
        let (path, stamp) = (file.path.clone(), file.stamp);
        let verified = || self.inner.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified().get(&path) == Some(&stamp) {
            return Ok(());
        }
        let hashed = path.clone();
        let found = self
            .blocking(move |inner| inner.prober.sha256(&hashed))
            .await?
            .map_err(|error| HostError::Internal(format!("{} cannot be read to verify it: {error}", path.display())))?;
        if found != expected {
            return Err(HostError::WrongFile { model: entry.name.clone(), path, expected, found });
        }
        verified().insert(path, stamp);
        Ok(())
    }

    /// Work that waits for files or processes, on a thread where that hurts nobody.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Inner) -> T + Send + 'static) -> Result<T, HostError> {
        let inner = Arc::clone(&self.inner);
        tokio::task::spawn_blocking(move || work(&inner))
            .await
            .map_err(|error| HostError::Internal(format!("a task of the host ended early: {error}")))
    }
}

impl Inner {
    fn lock_plans(&self) -> std::sync::MutexGuard<'_, HashMap<String, Plan>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &str) -> Result<(Arc<Catalog>, Arc<ModelEntry>), HostError> {
        let mut catalog = self.view.now();
        if catalog.model(name).is_none() {
            catalog = self.view.eager();
        }
        match catalog.model(name).cloned() {
            Some(entry) => Ok((catalog, Arc::new(entry))),
            None => Err(HostError::UnknownModel { name: name.to_owned(), suggestions: catalog.suggest(name) }),
        }
    }

    /// Whether the model's own files allow it to be served.
    fn servable(&self, entry: &ModelEntry) -> Result<(), HostError> {
        let model = || entry.name.clone();
        match &entry.state {
            State::Here(_) => Ok(()),
            State::Missing { .. } => Err(HostError::NotDownloaded { model: model(), message: entry.obstacle().unwrap_or_default() }),
            State::Broken(problems) => Err(HostError::Broken { model: model(), problems: problems.clone() }),
        }
    }

    /// The plan of a model that is loaded or about to be, if it was made from what is there now.
    fn planned(&self, catalog: &Arc<Catalog>, entry: &ModelEntry) -> Option<LaunchSpec> {
        let mut plans = self.lock_plans();
        let plan = plans.get_mut(&entry.name)?;
        if !Arc::ptr_eq(&plan.catalog, catalog) {
            if plan.catalog.model(&entry.name) != Some(entry) || plan.catalog.plugins() != catalog.plugins() {
                return None;
            }
            plan.catalog = Arc::clone(catalog);
        }
        let running = self.supervisor.status().iter().any(|worker| worker.model == entry.name);
        running.then(|| plan.spec.clone())
    }

    /// Chooses. Blocks: asks plugins that were not asked before.
    fn choose(&self, catalog: &Catalog, entry: &ModelEntry, failed: Vec<Failed>, thorough: bool) -> Explanation {
        let devices = self.prober.devices_within(DEVICES_AGE);
        let answers = Now::new(&self.prober, devices, &entry.name, self.supervisor.status());
        let wishes = onebit_catalog::Wishes { failed, thorough, ..self.config.wishes() };
        choose(entry, &catalog.plugins().usable, &wishes, &answers)
    }

    fn plugin_reports(&self, catalog: &Catalog) -> Vec<PluginReport> {
        let devices = self.prober.devices();
        let plugins = catalog.plugins();
        let usable = plugins.usable.iter().map(|entry| {
            let remembered = self.prober.probe(entry, &devices.devices);
            let at = remembered.at;
            let outcome = match remembered.answer {
                Err(failure) => PluginOutcome::Failed { failure, at },
                Ok(probed) => PluginOutcome::Usable {
                    info: probed.info,
                    devices: devices.devices.iter().cloned().zip(probed.reports).collect(),
                    warnings: entry.inspection.warnings.clone(),
                    trust: entry.inspection.trust.clone(),
                    at,
                },
            };
            PluginReport::of(entry, outcome)
        });
        let refused = plugins.refused.iter().map(|refused| {
            let refusal = refused.refusal.clone();
            PluginReport::unknown(refused.dir.clone(), refusal.plugin.clone(), refusal.version.clone(), PluginOutcome::Refused(refusal))
        });
        let shadowed = plugins.shadowed.iter().map(|(dir, by)| {
            let id = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
            PluginReport::unknown(dir.clone(), id, None, PluginOutcome::Shadowed(by.clone()))
        });
        usable.chain(refused).chain(shadowed).collect()
    }
}
