//! Who could change the plugin and what proves that it is whole: the findings of [`crate::trust`], under their codes.

use std::path::Path;

use super::Findings;
use super::codes::{self, Code, Severity};
use crate::RefusalRow;
use crate::trust::{self, Problem, Reading, Trust};

/// Gives the rows that a refusal has for the same things, too.
pub(super) fn judge(plugin_dir: &Path, trust: &Trust, findings: &mut Findings) -> Vec<RefusalRow> {
    let Ok(dir) = std::path::absolute(plugin_dir) else { return Vec::new() };
    // What is not there is said once, by whoever wanted to read it.
    if !dir.is_dir() {
        return Vec::new();
    }
    let examination = trust::examine(&dir, trust, Reading::Everything);
    for problem in &examination.problems {
        let severity = match problem.severity(trust.mode) {
            trust::Severity::Refused => Severity::Error,
            trust::Severity::Reported if problem.is_missing_proof() => Severity::Note,
            trust::Severity::Reported => Severity::Warning,
        };
        findings.add_as(code(problem), severity, problem.to_string(), problem.remedy());
    }
    examination.problems.iter().map(Problem::refusal).collect()
}

fn code(problem: &Problem) -> &'static Code {
    match problem {
        Problem::ForeignOwner { .. } => &codes::FOREIGN_OWNER,
        Problem::WorldWritable { .. } => &codes::WORLD_WRITABLE,
        Problem::GroupWritable { .. } => &codes::GROUP_WRITABLE,
        Problem::SharedParent { .. } => &codes::SHARED_PARENT,
        Problem::LeadsOut { .. } => &codes::LEADS_OUT,
        Problem::NotRegular { .. } => &codes::NOT_REGULAR,
        Problem::Unreadable { .. } => &codes::UNREADABLE,
        Problem::Crowded { .. } => &codes::CROWDED,
        Problem::NoHashes => &codes::NO_HASHES,
        Problem::Unlisted { .. } => &codes::UNLISTED,
        Problem::ListedMissing { .. } => &codes::LISTED_MISSING,
        Problem::Altered { .. } => &codes::ALTERED,
        Problem::Unsigned => &codes::UNSIGNED,
        Problem::SignatureDamaged { .. } => &codes::SIGNATURE_DAMAGED,
        Problem::SignatureWrong { .. } => &codes::SIGNATURE_WRONG,
        Problem::KeyUnknown { .. } => &codes::KEY_UNKNOWN,
        Problem::KeyExpired { .. } => &codes::KEY_EXPIRED,
        Problem::KeyUnusable { .. } => &codes::KEY_UNUSABLE,
    }
}
