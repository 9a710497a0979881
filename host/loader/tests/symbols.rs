//! A plugin exports its doors and nothing else: two plugins, or a plugin and the host, must not meet by name.

mod common;

use common::plugins;

#[test]
fn a_plugin_exports_its_doors_and_nothing_else() {
    for (library, doors) in [
        ("ngram/libngram.so", &["_1as_0lib_1header_0root_bmodule_bloader", "onebit_plugin_v1"][..]),
        ("ngram-c/libngram_c.so", &["onebit_plugin_v1"][..]),
    ] {
        let output = std::process::Command::new("nm")
            .args(["-D", "--defined-only", "--format=posix"])
            .arg(plugins().join(library))
            .output()
            .expect("nm, of package binutils");
        let text = String::from_utf8_lossy(&output.stdout);
        let mut names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
        names.sort_unstable();
        assert_eq!(names, doors, "{library}");
    }
}

#[test]
fn a_stripped_plugin_keeps_its_note_and_its_doors() {
    let dir = tempfile::tempdir().expect("a folder");
    for which in [onebit_faults::Which::Ngram, onebit_faults::Which::NgramC] {
        let plugin = onebit_faults::install(which, dir.path()).expect("the plugin");
        let file = onebit_loader::inspect(&plugin).unwrap_or_else(|refusal| panic!("{refusal}")).file;
        let stripped =
            std::process::Command::new("strip").arg("--strip-all").arg(&file.library).status().expect("strip, of package binutils");
        assert!(stripped.success());
        let again = onebit_loader::inspect(&plugin).unwrap_or_else(|refusal| panic!("{refusal}")).file;
        assert_eq!(again.note, file.note);
        onebit_loader::Plugin::load(&again, onebit_loader::HostSink::tracing()).unwrap_or_else(|error| panic!("{error}"));
    }
}
