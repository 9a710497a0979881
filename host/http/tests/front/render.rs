//! The process that runs chat templates, as a program of its own.

fn main() -> std::process::ExitCode {
    onebit_http::template::render_main()
}
