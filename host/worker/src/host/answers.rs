//! What the choice asks, answered by the prober, the machine and the running workers.

use std::sync::Arc;

use onebit_catalog::{Answers, FitQuestion, Free, PluginEntry};
use onebit_loader::devices::{Device, DeviceKind, DeviceList};
use onebit_loader::{Fit, ProbeReport};

use crate::probe::{FitAsked, Prober};
use crate::supervisor::{WorkerState, WorkerStatus, available_memory};

/// Answers for the choice of one model at one moment.
pub(super) struct Now<'a> {
    prober: &'a Prober,
    devices: Arc<DeviceList>,
    /// Models whose memory this one could have: those without work, and itself.
    leaving: Vec<WorkerStatus>,
}

impl<'a> Now<'a> {
    pub(super) fn new(prober: &'a Prober, devices: Arc<DeviceList>, model: &str, workers: Vec<WorkerStatus>) -> Self {
        let idle = |worker: &WorkerStatus| matches!(worker.state, WorkerState::Ready) && worker.active == 0 && worker.waiting == 0;
        let leaving = workers.into_iter().filter(|worker| worker.model == model || idle(worker)).collect();
        Self { prober, devices, leaving }
    }

    fn returned(&self, bytes: impl Fn(&WorkerStatus) -> u64) -> u64 {
        self.leaving.iter().map(bytes).fold(0, u64::saturating_add)
    }
}

impl Answers for Now<'_> {
    fn devices(&self) -> &[Device] {
        &self.devices.devices
    }

    fn probe(&self, plugin: &PluginEntry) -> Result<Vec<ProbeReport>, String> {
        self.prober.probe(plugin, &self.devices.devices).answer.map(|probed| probed.reports).map_err(|failure| failure.reason)
    }

    fn fit(&self, plugin: &PluginEntry, question: &FitQuestion<'_>) -> Result<Fit, String> {
        let Some(file) = question.model.file() else {
            return Err("the model's file is not here".into());
        };
        let FitQuestion { path, device, context, sequences, options, .. } = *question;
        self.prober.fit(plugin, &FitAsked { path, stamp: file.stamp, device, context, sequences, options })
    }

    fn free(&self, device: &Device) -> Free {
        let total = self.devices.devices.iter().find(|device| device.kind == DeviceKind::Cpu).map_or(0, |device| device.memory_total);
        // The kernel counts a worker's mapped weights as free already; counted twice they must not make more than there is.
        let most = if total == 0 { u64::MAX } else { total };
        let host = available_memory().map(|free| free.saturating_add(self.returned(|worker| worker.rss_bytes)).min(most));
        let own = (device.kind != DeviceKind::Cpu && device.memory_free > 0).then(|| {
            let back = self.returned(|worker| if worker.device == device.id { worker.estimate.device_bytes } else { 0 });
            device.memory_free.saturating_add(back).min(device.memory_total.max(device.memory_free))
        });
        Free { host, device: own }
    }
}
