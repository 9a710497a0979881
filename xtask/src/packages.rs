//! What a build needs from the system: one table, from which the check, the apt call and the list for other systems are made.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;

/// How to see that something is there, on any distribution.
pub enum Check {
    /// A program on PATH.
    Program(&'static str),
    /// `python3 -c "import …"` works.
    Python(&'static str),
    /// A file whose name begins so, in one of these folders; `*` stands for one folder level.
    File { folders: &'static [&'static str], prefix: &'static str },
}

/// One thing.
pub struct Need {
    /// Debian's and Ubuntu's package.
    pub apt: &'static str,
    /// What it is for, for the person who is asked to install it.
    pub why: &'static str,
    /// How to see that it is there.
    pub check: Check,
}

/// Everything that building, testing and the demo need besides Rust.
pub const NEEDS: &[Need] = &[
    Need { apt: "g++", why: "compiles llama.cpp", check: Check::Program("g++") },
    Need { apt: "make", why: "compiles llama.cpp", check: Check::Program("make") },
    Need { apt: "cmake", why: "configures llama.cpp", check: Check::Program("cmake") },
    Need { apt: "ccache", why: "makes the second build of the C++ parts fast", check: Check::Program("ccache") },
    Need { apt: "pkg-config", why: "finds libraries", check: Check::Program("pkg-config") },
    Need { apt: "binutils", why: "readelf: checks what is staged", check: Check::Program("readelf") },
    Need { apt: "clang", why: "bindgen and C header tests", check: Check::Program("clang") },
    Need {
        apt: "libclang-dev",
        why: "bindgen reads llama.h",
        check: Check::File { folders: &["/usr/lib/llvm-*/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"], prefix: "libclang" },
    },
    Need {
        apt: "libvulkan-dev",
        why: "Vulkan headers and loader",
        check: Check::File { folders: &["/usr/include/vulkan"], prefix: "vulkan.hpp" },
    },
    Need {
        apt: "spirv-headers",
        why: "SPIR-V headers for the Vulkan shaders",
        check: Check::File { folders: &["/usr/include/spirv/unified1"], prefix: "spirv.h" },
    },
    Need { apt: "glslc", why: "compiles the Vulkan shaders", check: Check::Program("glslc") },
    Need {
        apt: "mesa-vulkan-drivers",
        why: "a Vulkan device in software (lavapipe), for the tests",
        check: Check::File { folders: &["/usr/share/vulkan/icd.d"], prefix: "lvp_icd" },
    },
    Need { apt: "python3", why: "runs the official client libraries in tests", check: Check::Program("python3") },
    Need { apt: "python3-pip", why: "fetches the demo model", check: Check::Python("pip") },
    Need { apt: "python3-venv", why: "keeps test clients apart from the system", check: Check::Python("ensurepip, venv") },
    Need { apt: "nodejs", why: "runs the official client libraries in tests", check: Check::Program("node") },
    Need { apt: "npm", why: "fetches client libraries for tests", check: Check::Program("npm") },
    Need {
        apt: "ca-certificates",
        why: "TLS for downloads",
        check: Check::File { folders: &["/etc/ssl/certs"], prefix: "ca-certificates.crt" },
    },
];

impl Need {
    /// Whether it is there.
    pub fn present(&self) -> bool {
        match &self.check {
            Check::Program(name) => process::find(name).is_some(),
            Check::Python(module) => {
                Command::new("python3").args(["-c", &format!("import {module}")]).output().is_ok_and(|output| output.status.success())
            }
            Check::File { folders, prefix } => {
                // LIBCLANG_PATH is where bindgen looks first, so a person's own libclang counts.
                let own = std::env::var_os("LIBCLANG_PATH").filter(|_| *prefix == "libclang").map(PathBuf::from);
                folders.iter().flat_map(|folder| expand(folder)).chain(own).any(|folder| holds(&folder, prefix))
            }
        }
    }
}

/// What is missing, in the order of the table.
pub fn missing() -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| !need.present()).collect()
}

/// `/usr/lib/llvm-*/lib` to the folders that exist.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        found = match part.strip_suffix('*') {
            None => found.into_iter().map(|folder| folder.join(part)).collect(),
            Some(prefix) => found.iter().flat_map(|folder| entries(folder, prefix)).collect(),
        };
    }
    found
}

fn entries(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(list) = folder.read_dir() else { return Vec::new() };
    list.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)).map(|entry| entry.path()).collect()
}

fn holds(folder: &Path, prefix: &str) -> bool {
    !entries(folder, prefix).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_folder_level() {
        let folder = std::env::temp_dir().join(format!("xtask-expand-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("llvm-14/lib")).unwrap();
        std::fs::write(folder.join("llvm-14/lib/libclang-14.so"), "").unwrap();
        let pattern = format!("{}/llvm-*/lib", folder.display());
        assert!(expand(&pattern).iter().any(|folder| holds(folder, "libclang")));
        assert!(!expand(&pattern).iter().any(|folder| holds(folder, "libcuda")));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn every_need_says_what_it_is_for() {
        assert!(NEEDS.iter().all(|need| !need.why.is_empty() && !need.apt.is_empty()));
    }
}
