//! From a manifest back to a file: what is read from it is the same manifest again.
//!
//! Only what the manifest says is written; templates that stood in files of their own come along, so that the file needs no other beside it.

use toml::{Table, Value};

use crate::keep_alive::KeepAlive;
use crate::keys;
use crate::manifest::{Chat, Defaults, Isolation, Manifest, Serve};

/// The text of a manifest. `head` is a comment for the people who find the file.
pub(crate) fn text(head: &str, manifest: &Manifest) -> Result<String, toml::ser::Error> {
    let mut root = Table::new();
    put(&mut root, "schema", Some(1_i64));
    put(&mut root, "name", Some(manifest.name.clone()));
    put(&mut root, "aliases", list(&manifest.aliases));
    put(&mut root, "description", manifest.description.clone());
    put(&mut root, "model", Some(model(manifest)));
    put(&mut root, "chat", filled(chat(&manifest.chat)));
    put(&mut root, "defaults", filled(defaults(&manifest.defaults)));
    let choices: Vec<Value> = manifest.serve.iter().map(|serve| choice(serve).into()).collect();
    put(&mut root, keys::SERVE, (!choices.is_empty()).then_some(choices));
    Ok(format!("{head}\n\n{}", toml::to_string_pretty(&root)?))
}

fn model(manifest: &Manifest) -> Table {
    let mut table = Table::new();
    put(&mut table, "file", Some(manifest.file.to_string_lossy().into_owned()));
    put(&mut table, "sha256", manifest.sha256.clone());
    put(&mut table, "bytes", manifest.bytes.and_then(|bytes| i64::try_from(bytes).ok()));
    put(&mut table, "source", list(&manifest.source));
    put(&mut table, "format", manifest.format.clone());
    put(&mut table, "architecture", manifest.architecture.clone());
    put(&mut table, "licence", manifest.licence.clone());
    table
}

fn chat(chat: &Chat) -> Table {
    let mut table = Table::new();
    put(&mut table, "template", chat.template.clone());
    put(&mut table, "system", chat.system.clone());
    put(&mut table, "tool_format", chat.tool_format.clone());
    put(&mut table, "reasoning_format", chat.reasoning_format.clone());
    table
}

fn defaults(defaults: &Defaults) -> Table {
    let mut table = Table::new();
    put(&mut table, "temperature", defaults.temperature.map(decimal));
    put(&mut table, "top_k", defaults.top_k.map(i64::from));
    put(&mut table, "top_p", defaults.top_p.map(decimal));
    put(&mut table, "min_p", defaults.min_p.map(decimal));
    put(&mut table, "typical_p", defaults.typical_p.map(decimal));
    put(&mut table, "repetition_penalty", defaults.repetition_penalty.map(decimal));
    put(&mut table, "penalty_window", defaults.penalty_window.map(i64::from));
    put(&mut table, "presence_penalty", defaults.presence_penalty.map(decimal));
    put(&mut table, "frequency_penalty", defaults.frequency_penalty.map(decimal));
    put(&mut table, "seed", defaults.seed.and_then(|seed| i64::try_from(seed).ok()));
    put(&mut table, "stop", list(&defaults.stop));
    put(&mut table, "max_tokens", defaults.max_tokens.map(i64::from));
    put(&mut table, "context", defaults.context.map(i64::from));
    put(&mut table, "slots", defaults.slots.map(i64::from));
    put(&mut table, "threads", defaults.threads.map(i64::from));
    put(&mut table, "keep_alive", defaults.keep_alive.map(time));
    table
}

fn choice(serve: &Serve) -> Table {
    let mut table = Table::new();
    put(&mut table, "plugin", Some(serve.plugin.clone()));
    put(&mut table, "version", Some(serve.version.to_string()));
    put(&mut table, "device", Some(serve.device.to_string()));
    put(&mut table, "isolation", (serve.isolation == Isolation::InProcess).then_some("in-process"));
    put(&mut table, "fallback", serve.fallback.then_some(true));
    let options: Table = serve.options.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    put(&mut table, "options", filled(options));
    table
}

fn put(table: &mut Table, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        table.insert(name.to_owned(), value.into());
    }
}

fn list(texts: &[String]) -> Option<Vec<String>> {
    (!texts.is_empty()).then(|| texts.to_vec())
}

fn filled(table: Table) -> Option<Table> {
    (!table.is_empty()).then_some(table)
}

/// 0.2 and not 0.20000000298.
fn decimal(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::from(number))
}

fn time(keep_alive: KeepAlive) -> String {
    match keep_alive {
        KeepAlive::Forever => "forever".to_owned(),
        KeepAlive::For(duration) => format!("{}ms", duration.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::document;

    #[test]
    fn what_is_written_is_read_as_the_same_manifest() {
        let path = Path::new("m.toml");
        let read = |text: &str| Manifest::from_tree(path, &document::parse(path, text).unwrap()).unwrap();
        let original = read(
            r#"
            schema = 1
            name = "smol:1"
            aliases = ["smol", "mol"]
            description = "Says \"no\".\nOften."
            [model]
            file = "smol.gguf"
            sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
            bytes = 98362432
            source = ["hf:owner/repo/file", "https://models.example/file"]
            format = "gguf"
            architecture = "llama"
            licence = "Apache-2.0"
            [chat]
            template = "{% for m in messages %}'''{{ m }}\"\"\"\\{% endfor %}"
            system = ""
            tool_format = "hermes"
            reasoning_format = "none"
            [defaults]
            temperature = 0.2
            top_k = 40
            top_p = 0.9
            min_p = 0.05
            typical_p = 1
            repetition_penalty = 1.1
            penalty_window = 64
            presence_penalty = -0.5
            frequency_penalty = 0.25
            seed = 7
            stop = ["\n", "</s>"]
            max_tokens = 100
            context = 4096
            slots = 2
            threads = 3
            keep_alive = "1500ms"
            [[serve]]
            plugin = "vulkan-ggml"
            version = "^0.1"
            device = "vulkan"
            options = { flash_attention = true, layers = 12, cache = "f16" }
            [[serve]]
            plugin = "other"
            device = "cpu"
            isolation = "in-process"
            fallback = true
            "#,
        );
        let again = read(&text("# Written.", &original).unwrap());
        // Where a value was written is another place now, and numbers of a plugin's options are texts to it anyway.
        let bare = |manifest: &Manifest| {
            let serve = manifest.serve.iter().map(|serve| Serve { origin: String::new(), ..serve.clone() }).collect();
            Manifest { settings: Vec::new(), serve, ..manifest.clone() }
        };
        assert_eq!(bare(&again), bare(&original));
        assert_eq!(again.settings.len(), original.settings.len() + 1, "the second choice's version is written out");
    }
}
