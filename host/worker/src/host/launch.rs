//! From a choice of the catalog to what the supervisor launches.

use onebit_catalog::{Choice, ModelEntry};
use onebit_loader::trust::Seen;

use crate::spec::{Isolation, LaunchSpec, MemoryEstimate};

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
        keep_alive,
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
