//! Libraries that a plugin needs: those of its own folder, and those from elsewhere.
//!
//! Those of its folder are loaded by the host, one after the other, before the plugin's library (see `trust::verified`); the dynamic linker
//! then finds them by their SONAME. So each must have one, and there must be an order. Those from elsewhere are left to the linker; others must
//! not be able to change them.

use std::path::Path;

use crate::Refusal;
use crate::needed::{Found, Needed};
use crate::trust::{self, Severity, Trust};

/// Paths from `dir`, such that each library comes after those it needs. `main` is what the plugin's library needs.
pub(crate) fn order(dir: &Path, main: &[String], needed: &Needed, refusal: &mut Refusal) -> Vec<String> {
    let mut order = Order { dir, needed, done: Vec::new(), open: Vec::new(), refusal };
    main.iter().for_each(|name| order.visit(name));
    order.done.into_iter().map(|(_, file)| file).collect()
}

struct Order<'a> {
    dir: &'a Path,
    needed: &'a Needed,
    /// Name and file.
    done: Vec<(String, String)>,
    /// Names whose needs are being visited.
    open: Vec<String>,
    refusal: &'a mut Refusal,
}

impl Order<'_> {
    fn visit(&mut self, name: &str) {
        let Some(found) = self.needed.found.iter().find(|found| found.name == name) else { return };
        if self.done.iter().any(|(done, _)| done == name) {
            return;
        }
        if self.open.iter().any(|open| open == name) {
            let wanted = "libraries that do not need each other in a circle";
            return self.refusal.row("needed library", wanted, self.open.join(" → "), "link them into one library");
        }
        // Libraries from elsewhere too may need one of the folder, if somebody has arranged it so.
        self.open.push(name.to_owned());
        found.needed.iter().for_each(|name| self.visit(name));
        self.open.pop();
        if let Some(file) = inside(self.dir, found) {
            self.check_name(found, &file);
            self.done.push((name.to_owned(), file));
        }
    }

    fn check_name(&mut self, found: &Found, file: &str) {
        if found.name.contains('/') {
            let remedy = format!("link against {file} by -l, not by its path");
            return self.refusal.row("needed library", "a name without a folder", found.name.as_str(), remedy);
        }
        if found.soname.as_deref() != Some(found.name.as_str()) {
            let calls = found.soname.as_deref().unwrap_or("nothing");
            let remedy = format!("build it with -Wl,-soname,{}", found.name);
            self.refusal.row("needed library", format!("SONAME {}", found.name), format!("{file} calls itself {calls}"), remedy);
        }
    }
}

/// Its path from the folder, if it lies there.
fn inside(dir: &Path, found: &Found) -> Option<String> {
    found.path.strip_prefix(dir).ok().map(|path| path.to_string_lossy().into_owned())
}

/// Libraries from elsewhere: nobody else may be able to change them, and their names may not depend on the current folder.
pub(crate) fn check_elsewhere(dir: &Path, needed: &Needed, trust: &Trust, refusal: &mut Refusal) {
    for found in needed.found.iter().filter(|found| inside(dir, found).is_none()) {
        if found.name.contains('/') && !found.name.starts_with('/') {
            let remedy = "link against it by -l, not by a path";
            refusal.row("needed library", "a name, or an absolute path", found.name.as_str(), remedy);
        }
        for problem in trust::examine_file(&found.path).iter().filter(|problem| problem.severity(trust.mode) == Severity::Refused) {
            refusal.rows.push(problem.refusal());
        }
    }
}
