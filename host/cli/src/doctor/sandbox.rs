//! The sandbox: what this kernel confines plugins with, and which plugins the configuration lets out.

use serde_json::json;

use super::finding::Finding;

const AREA: &str = "sandbox";

/// The layers that hold here, what is missing, the exemptions, and settings that name nobody.
pub fn look(required: bool, exempt: &[String], misnamed: &[(&'static str, String)]) -> Vec<Finding> {
    let offered = onebit_sandbox::offered();
    let facts = json!(offered);
    let mut findings = Vec::new();
    if offered.holds() {
        findings.push(Finding::ok(AREA, format!("plugins are confined by {offered}")).with(facts));
    } else {
        let next = "Use a kernel with Landlock and seccomp; in a container, one that passes these system calls.";
        let text = "plugins are not fully confined on this machine";
        let finding = if required {
            Finding::fail(AREA, format!("{text}, and sandbox.require lets none run"), next)
        } else {
            Finding::warn(AREA, format!("{text}: a hostile one could do what its user can"), next)
        };
        findings.push(finding.with(facts));
    }
    let next = "A newer kernel restricts this too.";
    findings.extend(offered.missing.iter().map(|sentence| Finding::warn(AREA, sentence.clone(), next)));
    let there = |plugin: &&String| !misnamed.iter().any(|(_, name)| name == *plugin);
    findings.extend(exempt.iter().filter(there).map(|plugin| {
        let next = "Take it out of sandbox.exempt when what the sandbox broke is repaired.";
        Finding::warn(AREA, format!("the plugin {plugin} runs with all rights of the host (sandbox.exempt)"), next)
    }));
    let next = "Correct the name; `onebit-host plugin list` shows all.";
    findings.extend(misnamed.iter().map(|(setting, plugin)| {
        Finding::warn(AREA, format!("{setting} names the plugin {plugin}, which is not there: it changes nothing"), next)
    }));
    findings
}
