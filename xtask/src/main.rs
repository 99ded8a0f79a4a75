//! The project's own chores: `cargo xtask test` runs every check, `cargo xtask tidy` those that only read the workspace.

#![forbid(unsafe_code)]

mod omp;
mod rayon;
mod rayon_programs;
mod test;
mod tidy;
mod two_processes;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  cargo xtask test                        every check, in about 20 minutes on 2 cores
  cargo xtask test --quick                format, lints, invariants and tests in one build
  cargo xtask test --changed              the same for the packages that changed and those that depend on them
  cargo xtask test --only clippy,tidy     these steps
  cargo xtask test --list                 the steps and what each does
  cargo xtask test --full                 the long products, all sanitizers, ten minutes of fuzzing a target
  cargo xtask sanitize thread --quick     tests and soak under ThreadSanitizer
  cargo xtask sanitize --minutes 30       all sanitizers, with a long soak
  cargo xtask rayon                       rayon's own tests against our rayon-core
  cargo xtask rayon-programs              published programs with rayon and with our rayon-core
  cargo xtask tidy                        only the rules that read the workspace
  cargo xtask tidy --write                also renews the generated tables of ARCHITECTURE.md";

/// The project's own chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Runs every check of the project, goes on after failures, and sums up.
    #[command(after_help = EXAMPLES)]
    Test(test::Options),
    /// Runs tests, soak and decoding under ThreadSanitizer, AddressSanitizer and Valgrind.
    Sanitize(test::sanitize::Options),
    /// Measures what two parallel programs at once do to each other, bound and unbound.
    TwoProcesses(two_processes::Options),
    /// Runs programs of any suite with and without the adapter for OpenMP programs, and compares verdicts and times.
    OmpSuite(omp::suite::Options),
    /// Measures OpenMP programs with the adapter beside every static choice of threads, waiting and runtime, alone and beside neighbours.
    OmpTable(omp::table::Options),
    /// Measures OpenMP programs with tasks under the adapter beside libgomp and libomp, and says which bars hold.
    OmpTasks(omp::tasks::Options),
    /// Runs rayon's own tests against our rayon-core.
    Rayon(rayon::Options),
    /// Builds published programs with rayon and with our rayon-core, and compares their bytes and times.
    RayonPrograms(rayon_programs::Options),
    /// Keeps the machine busy for `omp-table`.
    #[command(hide = true)]
    OmpNeighbour(omp::neighbour::Options),
    /// Checks the invariants of the design that can be read off the workspace.
    Tidy(tidy::Options),
}

fn main() -> ExitCode {
    let passed = match Arguments::parse().verb {
        Verb::Test(options) => test::run(&root(), &options),
        Verb::Sanitize(options) => test::sanitize::run(&root(), &options),
        Verb::TwoProcesses(options) => two_processes::run(&root(), &options),
        Verb::OmpSuite(options) => omp::suite::run(&root(), &options),
        Verb::OmpTable(options) => omp::table::run(&root(), &options),
        Verb::OmpTasks(options) => omp::tasks::run(&root(), &options),
        Verb::Rayon(options) => rayon::run(&root(), &options),
        Verb::RayonPrograms(options) => rayon_programs::run(&root(), &options),
        Verb::OmpNeighbour(options) => omp::neighbour::run(&options),
        Verb::Tidy(options) => tidy::run(&root(), &options),
    };
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Returns the folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
        .to_owned()
}
