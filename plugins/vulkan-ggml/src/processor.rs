//! Which levels of instructions the system lets this process run.
//!
//! ggml's modules ask the processor only. An operating system or a hypervisor can hold back the registers that wide instructions need, and
//! then the processor says yes and the first such instruction kills the process. So a module is considered only when the system agrees.

/// What a module's instructions need beyond the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Baseline,
    Avx,
    Avx512,
}

/// The modules that may be loaded. One that is not here is not.
///
/// `sapphirerapids` is left out on purpose: on a virtual machine whose kernel grants the tile registers, its first TILEZERO ended the process.
/// Such processors run `cooperlake`, which has everything but the tiles.
const VARIANTS: &[(&str, Need)] = &[
    ("x64", Need::Baseline),
    ("sse42", Need::Baseline),
    ("sandybridge", Need::Avx),
    ("ivybridge", Need::Avx),
    ("piledriver", Need::Avx),
    ("haswell", Need::Avx),
    ("alderlake", Need::Avx),
    ("skylakex", Need::Avx512),
    ("cannonlake", Need::Avx512),
    ("cascadelake", Need::Avx512),
    ("cooperlake", Need::Avx512),
    ("icelake", Need::Avx512),
    ("zen4", Need::Avx512),
];

/// Whether a module may be loaded here.
pub fn permits(variant: &str) -> bool {
    match VARIANTS.iter().find(|(name, _)| *name == variant).map(|(_, need)| *need) {
        Some(Need::Baseline) => true,
        Some(Need::Avx) => avx(),
        Some(Need::Avx512) => avx512(),
        None => false,
    }
}

#[cfg(target_arch = "x86_64")]
fn avx() -> bool {
    // Asks for the registers too, not only for the instructions.
    std::arch::is_x86_feature_detected!("avx")
}

#[cfg(target_arch = "x86_64")]
fn avx512() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
}

#[cfg(not(target_arch = "x86_64"))]
fn avx() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn avx512() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_always_runs_and_strangers_never_do() {
        assert!(permits("x64") && permits("sse42"));
        assert!(!permits("m68k") && !permits("sapphirerapids"));
    }

    #[test]
    fn wider_needs_what_is_narrower() {
        assert!(!permits("zen4") || permits("haswell"));
        assert!(!permits("icelake") || permits("haswell"));
    }
}
