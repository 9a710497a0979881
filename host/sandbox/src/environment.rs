//! The environment of a process that runs foreign code: what is about computing, and nothing else.
//!
//! A host's environment holds what its starter put there: keys, tokens, proxies with passwords, the user's name. A list of what may pass is
//! short and stays true; a list of secrets never is complete.

use std::ffi::{OsStr, OsString};

/// Names that pass; `*` at the end stands for the rest.
const PASSED: &[&str] = &[
    // Where libraries and drivers are found, in the dynamic linker's and the Vulkan loader's words.
    "LD_LIBRARY_PATH",
    "VK_*",
    "XDG_DATA_DIRS",
    "XDG_CONFIG_DIRS",
    // Language and time zone of messages.
    "LANG",
    "LC_*",
    "TZ",
    // How libraries compute.
    "OMP_*",
    "GOMP_*",
    "KMP_*",
    "MKL_*",
    "OPENBLAS_*",
    "GGML_*",
    "MALLOC_*",
    "GLIBC_TUNABLES",
    // How drivers compute, and on what.
    "MESA_*",
    "RADV_*",
    "AMD_*",
    "INTEL_*",
    "ANV_*",
    "GALLIUM_*",
    "LP_*",
    "DRI_PRIME",
    "__GL_*",
    "__NV_*",
    "CUDA_*",
    "NVIDIA_*",
    "HSA_*",
    "HIP_*",
    "ROCR_*",
    "GPU_*",
    "ZE_*",
    "SYCL_*",
    "XRT_*",
    "XILINX_*",
    // The host's own worker.
    "ONEBIT_LOG",
    "RUST_BACKTRACE",
];

/// Of `variables`, those that pass; `more` are names that the configuration lets pass besides.
pub fn scrubbed(variables: impl IntoIterator<Item = (OsString, OsString)>, more: &[String]) -> Vec<(OsString, OsString)> {
    variables.into_iter().filter(|(name, _)| passes(name) || more.iter().any(|passed| passed.as_str() == name)).collect()
}

fn passes(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    PASSED.iter().any(|passed| match passed.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix.as_bytes()),
        None => name == passed.as_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_names_of_people_stay_behind() {
        let variables =
            ["ONEBIT_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "HOME", "USER", "PATH", "LD_PRELOAD", "SSH_AUTH_SOCK", "http_proxy"]
                .into_iter()
                .chain(["VK_DRIVER_FILES", "OMP_NUM_THREADS", "MINE"])
                .map(|name| (OsString::from(name), OsString::from("x")));
        let passed: Vec<_> = scrubbed(variables, &["MINE".into()]).into_iter().map(|(name, _)| name).collect();
        assert_eq!(passed, ["VK_DRIVER_FILES", "OMP_NUM_THREADS", "MINE"]);
    }
}
