//! Which build this is.

use std::sync::LazyLock;

/// `0.1.0`
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What `git describe` said when it was built; empty if it was not built from a git checkout.
pub const SOURCE: &str = env!("ONEBIT_SOURCE");
/// What it was built for.
pub const TARGET: &str = env!("ONEBIT_TARGET");

/// Version, ABI, target and source, for `--version`.
pub static LONG: LazyLock<String> = LazyLock::new(|| {
    let source = if SOURCE.is_empty() { String::new() } else { format!("\nsource      {SOURCE}") };
    let (major, minor) = (onebit_loader::ABI_MAJOR, onebit_loader::ABI_MINOR);
    let abi = if minor == 0 { format!("{major}.0") } else { format!("{major}.0 to {major}.{minor}") };
    format!("{VERSION}\nplugin ABI  {abi}\ntarget      {TARGET}{source}")
});
