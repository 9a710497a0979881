//! Folders: where models, manifests and plugins are looked for, what is wrong in them, and whether the cache can be written.

use std::path::Path;

use onebit_catalog::{CatalogPaths, Problem, Severity};
use rustix::fs::{Access, access};
use serde_json::json;

use super::finding::Finding;
use crate::output::bytes;

const AREA: &str = "folders";

/// The folders and what is wrong with files in them.
pub fn look(paths: &CatalogPaths, cache: &Path, problems: &[Problem]) -> Vec<Finding> {
    let mut findings = vec![models(paths)];
    for (what, dirs) in [("manifests", &paths.manifest_dirs), ("plugins", &paths.plugin_dirs)] {
        let there: Vec<String> = dirs.iter().filter(|dir| dir.is_dir()).map(|dir| dir.display().to_string()).collect();
        let unreadable = dirs.iter().find(|dir| dir.is_dir() && access(dir.as_path(), Access::READ_OK | Access::EXEC_OK).is_err());
        let text = if there.is_empty() { format!("no folder of {what} exists") } else { format!("{what} from {}", there.join(", ")) };
        let facts = json!({ what: dirs });
        findings.push(match unreadable {
            Some(dir) => Finding::fail(
                AREA,
                format!("the folder of {what} {} may not be read by this user", dir.display()),
                "Give this user read and execute rights, or take the folder away.",
            )
            .with(facts),
            None => Finding::ok(AREA, text).with(facts),
        });
    }
    findings.extend(problems.iter().map(|problem| {
        let next = "Repair the file; `onebit-host list` shows the models that it costs.";
        let finding = match problem.severity {
            Severity::Error => Finding::fail(AREA, problem.to_string(), next),
            Severity::Warning => Finding::warn(AREA, problem.to_string(), next),
        };
        finding.with(json!(problem))
    }));
    findings.push(cache_folder(cache));
    findings
}

fn models(paths: &CatalogPaths) -> Finding {
    let Some(first) = paths.models_dirs.first() else {
        return Finding::fail(AREA, "there is no models folder", "Give one with --models-dir DIR.");
    };
    let shown: Vec<String> = paths.models_dirs.iter().map(|dir| dir.display().to_string()).collect();
    let existing = first.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    let free = rustix::fs::statvfs(existing).ok().map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    let facts = json!({ "models": paths.models_dirs, "free": free });
    let room = free.map_or_else(String::new, |free| format!(" ({} free)", bytes(free)));
    if access(existing, Access::WRITE_OK).is_err() {
        return Finding::warn(
            AREA,
            format!("models from {}; the first cannot be written, so `pull` cannot put models there", shown.join(", ")),
            "Choose another first folder with --models-dir DIR, or give this user the right to write.",
        )
        .with(facts);
    }
    Finding::ok(AREA, format!("models from {}{room}", shown.join(", "))).with(facts)
}

fn cache_folder(cache: &Path) -> Finding {
    // Only a try tells: a folder can look writable and be full or mounted read-only.
    let tried = std::fs::create_dir_all(cache).and_then(|()| tempfile::Builder::new().prefix(".doctor-").tempfile_in(cache).map(drop));
    let facts = json!({ "cache": cache });
    match tried {
        Ok(()) => Finding::ok(AREA, format!("the cache {} can be written", cache.display())).with(facts),
        Err(error) => Finding::warn(
            AREA,
            format!("the cache {} cannot be written: {error}", cache.display()),
            "Everything works, but each start asks all drivers and plugins anew. Choose another folder with --cache-dir DIR.",
        )
        .with(facts),
    }
}
