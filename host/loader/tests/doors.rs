//! What only one of the two doors can tell.

mod common;

use std::sync::{Arc, Mutex};

use common::{Subject, plugins, story};
use onebit_faults::Which;
use onebit_loader::{CancelFlag, Door, HostSink, LoadError, LogLevel, Plugin, Sink, inspect};

#[test]
fn a_plugin_of_another_layout_is_refused_in_one_line_before_its_entry_is_called() {
    let dir = tempfile::tempdir().expect("a folder");
    let plugin = onebit_faults::install(Which::OtherLayout, dir.path()).expect("the plugin");
    let file = inspect(&plugin).unwrap_or_else(|refusal| panic!("{refusal}")).file;
    let error = Plugin::load(&file, HostSink::tracing()).expect_err("another layout");
    let LoadError::Refused(refusal) = error else { panic!("{error}") };
    assert_eq!(refusal.rows.len(), 1, "{refusal}");
    let row = &refusal.rows[0];
    assert!(row.field == "layout" && row.plugin.starts_with("another layout: ") && row.plugin.lines().count() == 1, "{refusal}");
    // Not the name of the fixture's package or its version: what its types look like.
    assert!(row.plugin.contains("field") || row.plugin.contains("size"), "{refusal}");
}

#[test]
fn a_door_that_is_not_there_is_named() {
    let dir = plugins().join("ngram-c");
    let file = inspect(&dir).unwrap_or_else(|refusal| panic!("{refusal}")).file;
    let error = Plugin::load_through(&file, HostSink::tracing(), Door::Rust).expect_err("no such door");
    assert!(error.to_string().contains("door rust"), "{error}");
    let dir = tempfile::tempdir().expect("a folder");
    let plugin = onebit_faults::install(Which::OtherLayout, dir.path()).expect("the plugin");
    let file = inspect(&plugin).unwrap_or_else(|refusal| panic!("{refusal}")).file;
    let error = Plugin::load_through(&file, HostSink::tracing(), Door::C).expect_err("no such door");
    assert!(error.to_string().contains("onebit_plugin_v1"), "{error}");
}

#[test]
fn a_library_that_was_replaced_after_its_inspection_is_not_loaded() {
    let dir = tempfile::tempdir().expect("a folder");
    let plugin = onebit_faults::install(Which::NgramC, dir.path()).expect("the plugin");
    let file = inspect(&plugin).unwrap_or_else(|refusal| panic!("{refusal}")).file;
    let library = plugin.join("libngram_c.so");
    std::fs::remove_file(&library).expect("removed");
    onebit_faults::build_c("liar.c", &library, &[]).expect("another plugin in its place");
    let error = Plugin::load(&file, HostSink::tracing()).expect_err("another file");
    assert!(error.to_string().contains("replaced meanwhile"), "{error}");
}

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Sink for Heard {
    fn log(&self, level: LogLevel, target: &str, message: &str) {
        self.0.lock().expect("heard").push(format!("{level:?} {target}: {message}"));
    }

    fn metric_add(&self, name: &str, value: f64) {
        self.0.lock().expect("heard").push(format!("{name} += {value}"));
    }

    fn metric_set(&self, name: &str, value: f64) {
        self.0.lock().expect("heard").push(format!("{name} = {value}"));
    }
}

#[test]
fn what_a_plugin_logs_and_counts_reaches_the_host() {
    // A copy of its own: the first host that enters a library is the one it talks to.
    let dir = tempfile::tempdir().expect("a folder");
    let plugin = onebit_faults::install(Which::Ngram, dir.path()).expect("the plugin");
    let file = inspect(&plugin).unwrap_or_else(|refusal| panic!("{refusal}")).file;
    let heard = Heard::default();
    let plugin = Plugin::load(&file, HostSink::new(heard.clone())).expect("loaded");
    let subject = Subject { name: "ngram", plugin };
    subject.open(&story(), &[], &CancelFlag::new(), &mut |_| {}).expect("a model");
    let heard = heard.0.lock().expect("heard").clone();
    assert!(heard.contains(&"Info ngram: started".to_owned()) && heard.contains(&"models_opened += 1".to_owned()), "{heard:?}");
}
