//! The process of a case, as the program's hidden command is: what the tests of this crate start.

fn main() -> std::process::ExitCode {
    onebit_kit::kit_case_main()
}
