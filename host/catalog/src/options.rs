//! Settings that a manifest gives to a plugin, compared with those that the plugin has.

use onebit_loader::OptionKind;

use crate::manifest::Serve;
use crate::plugins::PluginEntry;

/// Whether the plugin has the options that the manifest gives it.
pub(crate) fn check(plugin: &PluginEntry, serve: &Serve) -> Result<(), String> {
    let known = &plugin.inspection.file.toml.options;
    for (name, value) in &serve.options {
        let Some(option) = known.iter().find(|option| option.name == *name) else {
            let nearest = known
                .iter()
                .map(|option| &option.name)
                .max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
            let hint = nearest.map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default();
            return Err(format!("has no option `{name}` ({}){hint}", serve.origin));
        };
        let fits = match option.kind {
            OptionKind::String => true,
            OptionKind::Integer => value.parse::<i64>().is_ok(),
            OptionKind::Number => value.parse::<f64>().is_ok(),
            OptionKind::Boolean => value.parse::<bool>().is_ok(),
        };
        if !fits {
            return Err(format!("option `{name}` is {value:?}, which is no {:?} ({})", option.kind, serve.origin).to_lowercase());
        }
    }
    Ok(())
}
