//! Where a library tells the linker to look for others. Whoever can write there chooses what the plugin's process runs.

use std::path::{Component, Path};

use super::{Findings, codes};
use crate::elf::ElfFacts;
use crate::trust::{self, Problem};

/// Where packages of the system and of its administrator put libraries; the same on every machine.
const OF_THE_SYSTEM: &[&str] = &["/lib", "/lib32", "/lib64", "/usr", "/opt", "/nix/store"];

pub(super) fn judge(path: &Path, facts: &ElfFacts, findings: &mut Findings) {
    for (tag, text) in &facts.search {
        // An empty part is the current folder, as for a shell.
        for part in text.split(':') {
            let said = format!("{tag} {text:?}");
            match kind(part) {
                Kind::Own => {}
                Kind::Relative => {
                    findings.add(
                        &codes::RUNPATH_RELATIVE,
                        said,
                        "link with -Wl,-rpath,'$ORIGIN' for what lies beside it, or without a RUNPATH",
                    );
                }
                Kind::Outside => {
                    findings.add(
                        &codes::RUNPATH_OUTSIDE,
                        said,
                        "put the libraries into the plugin's folder, and link with -Wl,-rpath,'$ORIGIN'",
                    );
                }
                Kind::Absolute(folder) => match (weakness(folder), OF_THE_SYSTEM.iter().any(|system| folder.starts_with(system))) {
                    (Some(weak), _) => {
                        let said = format!("{said}: {weak}");
                        findings.add(
                            &codes::RUNPATH_WRITABLE,
                            said,
                            "link with -Wl,-rpath,'$ORIGIN' for what lies beside it, or without a RUNPATH",
                        );
                    }
                    (None, false) => {
                        let remedy = "link with -Wl,-rpath,'$ORIGIN', or take it away with patchelf --remove-rpath";
                        findings.add_in(path, &codes::RUNPATH_ABSOLUTE, said, remedy);
                    }
                    (None, true) => {}
                },
            }
        }
    }
}

enum Kind<'a> {
    /// The library's own folder, or below it.
    Own,
    Relative,
    /// From the library's own folder to one that is not its own.
    Outside,
    Absolute(&'a Path),
}

fn kind(part: &str) -> Kind<'_> {
    if let Some(rest) =
        ["$ORIGIN", "${ORIGIN}"].iter().find_map(|origin| part.strip_prefix(origin)).filter(|rest| rest.is_empty() || rest.starts_with('/'))
    {
        let mut depth = 0i32;
        for component in Path::new(rest.trim_start_matches('/')).components() {
            depth += match component {
                Component::ParentDir => -1,
                Component::Normal(_) => 1,
                _ => 0,
            };
            if depth < 0 {
                return Kind::Outside;
            }
        }
        return Kind::Own;
    }
    let path = Path::new(part);
    if path.is_absolute() { Kind::Absolute(path) } else { Kind::Relative }
}

/// What lets others write into the folder, or make it if it is not there.
fn weakness(folder: &Path) -> Option<Problem> {
    let weak = |problem: &Problem| {
        use Problem::{ForeignOwner, GroupWritable, SharedParent, WorldWritable};
        matches!(problem, ForeignOwner { .. } | WorldWritable { .. } | GroupWritable { .. } | SharedParent { .. })
    };
    trust::examine_file(folder).into_iter().find(weak)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart() {
        let word = |part: &str| match kind(part) {
            Kind::Own => "own",
            Kind::Relative => "relative",
            Kind::Outside => "outside",
            Kind::Absolute(_) => "absolute",
        };
        for own in ["$ORIGIN", "${ORIGIN}", "$ORIGIN/lib", "${ORIGIN}/a/../b"] {
            assert_eq!(word(own), "own", "{own}");
        }
        for relative in ["", ".", "lib", "$ORIGINAL/lib", "$LIB"] {
            assert_eq!(word(relative), "relative", "{relative}");
        }
        assert_eq!(word("$ORIGIN/../lib"), "outside");
        assert_eq!(word("/usr/lib"), "absolute");
    }

    #[test]
    fn a_folder_that_others_can_write_to_or_make_is_told() {
        assert_eq!(weakness(Path::new("/usr/lib")), None);
        assert_eq!(weakness(Path::new("/tmp/nobody/made/this")), Some(Problem::SharedParent { path: "/tmp".into() }));
    }
}
