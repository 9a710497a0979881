//! From a choice of the catalog to what the supervisor launches.

use onebit_catalog::{Choice, ModelEntry};
use onebit_loader::trust::Seen;

use crate::spec::{Isolation, KeepAlive, LaunchSpec, MemoryEstimate};

/// Everything the supervisor needs.
pub(super) fn spec(entry: &ModelEntry, choice: Choice, seen: Vec<Seen>, keep_alive: onebit_catalog::KeepAlive) -> LaunchSpec {
    LaunchSpec {
        model: entry.name.clone(),
        model_path: choice.model_path,
        plugin_dir: choice.plugin_dir,
        plugin_id: choice.plugin,
        plugin_version: choice.version,
        device: choice.device,
        options: choice.options,
        context: Some(choice.context),
        slots: choice.slots,
        threads: choice.threads,
        keep_alive: stay(keep_alive),
        isolation: match choice.isolation {
            onebit_catalog::Isolation::Worker => Isolation::Worker,
            onebit_catalog::Isolation::InProcess => Isolation::InProcess,
        },
        estimate: MemoryEstimate { host_bytes: choice.estimate.host, device_bytes: choice.estimate.device },
        chat_template: entry.manifest.as_ref().and_then(|manifest| manifest.chat.template.clone()),
        fallback_note: choice.fallback_note,
        needs: choice.needs,
        seen,
        env: choice.environment,
    }
}

pub(super) fn stay(keep_alive: onebit_catalog::KeepAlive) -> KeepAlive {
    match keep_alive {
        onebit_catalog::KeepAlive::For(duration) => KeepAlive::For(duration),
        onebit_catalog::KeepAlive::Forever => KeepAlive::Forever,
    }
}
