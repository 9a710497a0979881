//! The process that runs chat templates, as a program of its own: the product has it inside `onebit-host`.

fn main() -> std::process::ExitCode {
    onebit_http::template::render_main()
}
