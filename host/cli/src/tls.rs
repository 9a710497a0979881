//! Which code does TLS: ring, named once. reqwest's own choice would compile another C library for minutes.

/// Makes ring the process's TLS provider. Must run before an HTTP client is built; a second call changes nothing.
pub fn prepare() {
    // Err = it is set already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
