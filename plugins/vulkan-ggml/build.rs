//! Two things: the C++ border (`cpp/border.cpp`), compiled against the headers of the llama.cpp that is linked, and a RUNPATH, so that the
//! plugin finds its libraries in the folder it lies in.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=cpp/border.cpp");
    let backends = env::var_os("DEP_LLAMA_BACKENDS_DIR").map(PathBuf::from);
    let include = backends.as_deref().and_then(|dir| dir.parent()).map(|out| out.join("include"));
    let Some(include) = include.filter(|dir| dir.join("llama.h").exists()) else {
        panic!(
            "llama-cpp-sys-2 installed no headers beside {backends:?}: it was built without `dynamic-backends`, or its layout has changed"
        );
    };
    cc::Build::new().cpp(true).std("c++17").include(include).file("cpp/border.cpp").warnings(true).compile("onebit_ggml_border");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN");
}
