//! The `tanada` binary; everything is in the library.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    tanada::main()
}
