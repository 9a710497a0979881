//! Cases run under the rules that hold for workers: who tests a stranger's plugin is not at its mercy, and an author learns of a call that a
//! worker would refuse.

use onebit_confine::SandboxConfig;
use onebit_faults::Which;
use onebit_kit::State;

use crate::support::Subject;

fn attempt(what: &str, target: &str, sandbox: SandboxConfig) -> String {
    let result = Subject::new(Which::Faulty).once().under(sandbox).option("attempt", what).option("target", target).case("open.model");
    assert_eq!(result.verdict.state, State::Failed, "{result:#?}");
    result.verdict.text
}

#[test]
fn a_hostile_plugin_gets_out_of_no_case() {
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("planted").display().to_string();
    let folder = outside.path().display().to_string();
    for (what, target) in [("read", "/etc/passwd"), ("write", &file), ("exec", &file), ("network", "127.0.0.1:9"), ("fill", &folder)] {
        let said = attempt(what, target, SandboxConfig::default());
        assert!(said.contains("refused") && !said.contains("ESCAPED"), "{what}: {said}");
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn what_the_configuration_exempts_is_tested_without() {
    let exempt = SandboxConfig { exempt: vec!["faulty".into()], ..SandboxConfig::default() };
    assert!(attempt("read", "/etc/passwd", exempt).contains("ESCAPED"));
}
