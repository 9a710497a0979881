//! A plugin exports its doors and nothing else: two plugins, or a plugin and the host, must not meet by name.

mod common;

use common::plugins;

#[test]
fn a_plugin_exports_its_doors_and_nothing_else() {
    for (library, doors) in [
        ("ngram/libonebit_fault_ngram.so", &["_1as_0lib_1header_0root_bmodule_bloader", "onebit_plugin_v1"][..]),
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
