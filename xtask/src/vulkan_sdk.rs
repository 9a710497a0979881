//! The Vulkan tool-chain for full-speed shaders.
//!
//! ggml's Vulkan backend needs Vulkan-Hpp of at least 1.3.272, and leaves its cooperative-matrix and integer-dot paths out, with no more
//! than a line in a log, if the shader compiler is older than 2025. Where the system's packages are too old, Debian's next release has
//! both: its packages are unpacked into a folder of the per-user cache, through a package state of their own, so that the system's apt
//! sees nothing of it. The newer compiler brings its own C library and is started through that library's loader.

use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{model, paths, process};

/// First Vulkan header whose C++ bindings have what ggml uses (`VK_EXT_layer_settings`).
const HEADER_MIN: (u32, u32) = (3, 272);
/// First shader compiler that knows cooperative matrices and integer dot products.
const GLSLC_MIN: u32 = 2025;
/// Debian release that has both.
const SUITE: &str = "trixie";
const TRIPLE: &str = "x86_64-linux-gnu";

/// Unpacked from [`SUITE`]. Those with a sha256 decide what the shaders become, and are pinned; the C and C++ libraries move with
/// Debian's point releases and are checked by apt's signatures alone.
const DEBS: &[(&str, Option<&str>)] = &[
    ("glslc", Some("e05374965709159303041b104d4a26022d6ac5eb8296450364d66ae864a20367")),
    ("libshaderc1", Some("2a67c8f784c65e1aa0d251819c020917405b490fbb543c6a73a52a631e476463")),
    ("libvulkan-dev", Some("8d329d465e16168afff58b1bd0dd6db46aac2cc3f56054a481b25a04e90b345a")),
    ("libc6", None),
    ("libstdc++6", None),
    ("libgcc-s1", None),
];

/// What the plugin build is given.
pub enum Tools {
    /// The system's own are new enough.
    System,
    /// A folder laid out as a Vulkan SDK.
    Sdk(PathBuf),
    /// On purpose: new headers, the system's compiler, without the fast paths.
    Portable(Option<PathBuf>),
}

impl Tools {
    /// Sets what CMake looks at.
    pub fn apply(&self, command: &mut Command) {
        let (sdk, compiler) = match self {
            Self::System | Self::Portable(None) => return,
            Self::Sdk(folder) => (folder, true),
            Self::Portable(Some(folder)) => (folder, false),
        };
        command.env("VULKAN_SDK", sdk);
        if compiler {
            let mut path = OsString::from(sdk.join("bin"));
            if let Some(rest) = std::env::var_os("PATH") {
                path.push(":");
                path.push(rest);
            }
            command.env("PATH", path);
        }
    }

    /// One line for the terminal.
    pub fn describe(&self) -> String {
        match self {
            Self::System => "the system's Vulkan headers and shader compiler".into(),
            Self::Sdk(folder) => format!("Vulkan headers and shader compiler in {}", folder.display()),
            Self::Portable(_) => {
                "the system's shader compiler; cooperative-matrix and integer-dot shaders are OFF if it is older than 2025".into()
            }
        }
    }
}

/// What to use here, without making anything. `None` = something must be made first.
pub fn find(portable: bool) -> Result<Option<Tools>> {
    let headers = header_version(Path::new("/usr/include")).is_some_and(|version| version >= HEADER_MIN);
    let compiler = glslc_year(Path::new("glslc")).is_some_and(|year| year >= GLSLC_MIN);
    if headers && compiler {
        return Ok(Some(Tools::System));
    }
    if headers && portable {
        return Ok(Some(Tools::Portable(None)));
    }
    let sdk = folder(portable)?;
    let complete =
        header_version(&sdk.join("include")).is_some_and(|version| version >= HEADER_MIN) && sdk.join("lib/libvulkan.so").exists();
    if !complete {
        return Ok(None);
    }
    if portable {
        return Ok(Some(Tools::Portable(Some(sdk))));
    }
    Ok(glslc_year(&sdk.join("bin/glslc")).is_some_and(|year| year >= GLSLC_MIN).then_some(Tools::Sdk(sdk)))
}

/// What to use here; makes the private folder if that is what it takes.
pub fn ensure(portable: bool) -> Result<Tools> {
    if let Some(tools) = find(portable)? {
        return Ok(tools);
    }
    let since = process::begin("Vulkan headers and shader compiler, into the per-user cache");
    make(portable)?;
    process::done("made", since);
    find(portable)?.context("the private Vulkan tool-chain was made, but its compiler does not run; remove the folder and try again")
}

fn folder(portable: bool) -> Result<PathBuf> {
    Ok(paths::cache()?.join(if portable { "vulkan-headers" } else { "vulkan-sdk" }))
}

fn make(portable: bool) -> Result<()> {
    let too_old = "the system's Vulkan headers or shader compiler are too old for a full-speed build (needed: headers 1.3.272, glslc 2025)";
    if std::env::consts::ARCH != "x86_64" || process::find("dpkg-deb").is_none() || process::find("apt-get").is_none() {
        bail!("{too_old}; install newer ones, or point VULKAN_SDK at an SDK and use --portable-shaders");
    }
    let keyring = Path::new("/usr/share/keyrings/debian-archive-keyring.gpg");
    let mirror = debian_mirror()?.filter(|_| keyring.exists());
    let Some(mirror) = mirror else {
        bail!(
            "{too_old}, and this is no Debian system whose mirror has newer ones. Ubuntu 25.10 and later have them as packages; \
             on an older one `--portable-shaders` builds without cooperative-matrix and integer-dot shaders (headers 1.3.272 needed)"
        );
    };

    let target = folder(portable)?;
    let work = target.with_extension("new");
    let _ = std::fs::remove_dir_all(&work);
    let apt = work.join("apt");
    for part in ["lists/partial", "cache/archives/partial", "debs"] {
        std::fs::create_dir_all(apt.join(part))?;
    }
    // apt gives up its privileges for downloads and then needs to reach the folder; a private cache is no place for that.
    std::fs::write(apt.join("status"), "")?;
    std::fs::write(apt.join("sources.list"), format!("deb [signed-by={}] {mirror} {SUITE} main\n", keyring.display()))?;
    let options: Vec<String> = [
        ("Dir::Etc::sourcelist", apt.join("sources.list")),
        ("Dir::Etc::sourceparts", "/dev/null".into()),
        ("Dir::State::lists", apt.join("lists")),
        ("Dir::State::status", apt.join("status")),
        ("Dir::Cache", apt.join("cache")),
    ]
    .iter()
    .flat_map(|(name, value)| ["-o".to_owned(), format!("{name}={}", value.display())])
    .chain(["-o".into(), "APT::Sandbox::User=root".into(), "-q".into()])
    .collect();
    let wanted: Vec<&(&str, Option<&str>)> = DEBS.iter().filter(|(name, _)| !portable || *name == "libvulkan-dev").collect();
    process::output(Command::new("apt-get").args(&options).arg("update"))?;
    process::output(
        Command::new("apt-get").args(&options).arg("download").args(wanted.iter().map(|(name, _)| name)).current_dir(apt.join("debs")),
    )?;
    let root = work.join("root");
    for (name, sha256) in wanted {
        let deb = find_deb(&apt.join("debs"), name)?;
        if let Some(expected) = sha256 {
            let found = model::sha256(&deb, |_| ())?;
            ensure!(
                found == *expected,
                "{} is not the build that was tested: sha256 {found}, expected {expected}; \
                 the mirror has moved on: check the new one and change DEBS in xtask/src/vulkan_sdk.rs",
                deb.display()
            );
        }
        process::output(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&root))?;
    }
    std::fs::create_dir_all(work.join("lib"))?;
    symlink("root/usr/include", work.join("include"))?;
    symlink(format!("/usr/lib/{TRIPLE}/libvulkan.so"), work.join("lib/libvulkan.so"))?;
    if !portable {
        write_wrapper(&work)?;
    }
    std::fs::remove_dir_all(&apt)?;
    let _ = std::fs::remove_dir_all(&target);
    std::fs::rename(&work, &target).with_context(|| format!("cannot move {} into place", work.display()))
}

/// A script, because the compiler must be started through the C library that it was built for.
fn write_wrapper(sdk: &Path) -> Result<()> {
    std::fs::create_dir_all(sdk.join("bin"))?;
    let script = format!(
        "#!/bin/sh\nhere=$(cd \"$(dirname \"$0\")/..\" && pwd)\nlib=\"$here/root/usr/lib/{TRIPLE}\"\n\
         exec \"$lib/ld-linux-x86-64.so.2\" --library-path \"$lib\" \"$here/root/usr/bin/glslc\" \"$@\"\n"
    );
    let file = sdk.join("bin/glslc");
    std::fs::write(&file, script)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn find_deb(folder: &Path, package: &str) -> Result<PathBuf> {
    let prefix = format!("{package}_");
    folder
        .read_dir()?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix)))
        .with_context(|| format!("apt-get download brought no {package}"))
}

/// The mirror that this machine is configured for; the same one serves every release.
fn debian_mirror() -> Result<Option<String>> {
    let targets =
        process::output(Command::new("apt-get").args(["indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)"]))?;
    Ok(targets.lines().find_map(|line| line.strip_prefix("Debian|Debian|main|")).map(|uri| uri.trim_end_matches('/').to_owned()))
}

fn header_version(include: &Path) -> Option<(u32, u32)> {
    parse_header(&std::fs::read_to_string(include.join("vulkan/vulkan_core.h")).ok()?)
}

/// (minor, patch) of Vulkan 1.
fn parse_header(text: &str) -> Option<(u32, u32)> {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name)?.strip_prefix(' '));
    let patch = value("VK_HEADER_VERSION")?.trim().parse().ok()?;
    // VK_MAKE_API_VERSION(0, 1, 3, VK_HEADER_VERSION)
    let complete = value("VK_HEADER_VERSION_COMPLETE")?;
    let minor = complete.split(['(', ',', ')']).map(str::trim).nth(3)?.parse().ok()?;
    Some((minor, patch))
}

fn glslc_year(program: &Path) -> Option<u32> {
    parse_glslc(&process::output(Command::new(program).arg("--version")).ok()?)
}

/// `shaderc v2023.8 …` upstream, `shaderc 2025.2-1` at Debian.
fn parse_glslc(text: &str) -> Option<u32> {
    let version = text.lines().next()?.strip_prefix("shaderc ")?;
    version.trim_start_matches('v').split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_header_and_compiler() {
        let header = "#define VK_HEADER_VERSION 309\n#define VK_HEADER_VERSION_COMPLETE VK_MAKE_API_VERSION(0, 1, 4, VK_HEADER_VERSION)\n";
        assert_eq!(parse_header(header), Some((4, 309)));
        assert!((4, 309) >= HEADER_MIN && (3, 239) < HEADER_MIN && (3, 275) >= HEADER_MIN);
        assert_eq!(parse_glslc("shaderc 2023.2-1\nspirv-tools 2022.4"), Some(2023));
        assert_eq!(parse_glslc("shaderc v2025.3 v2025.3-dirty"), Some(2025));
        assert_eq!(parse_glslc("something else"), None);
    }
}
