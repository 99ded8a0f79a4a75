//! `tanada omp`: an unmodified OpenMP program, whose parallel regions run with the team that a governor chooses.

#[allow(dead_code, unreachable_pub)]
#[path = "../../../openmp/src/board.rs"]
mod board;
mod energy;
mod outcome;
mod page;
mod program;
pub(crate) mod symbols;

use crate::emulator;
use crate::ui::{self, Failure, Outcome, OutputFile};
use outcome::Run;
use program::Program;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tanada_policy::governors::regions;
use tanada_trace::output::distinct;

/// Run an OpenMP program; a governor chooses the team of each parallel region
///
/// The program is not changed: gcc's or clang's, in C, C++ or Fortran, linked dynamically. Its input, output and exit code are its own;
/// when it ends, a table of its regions follows on standard error. Regions whose code depends on the number of threads keep theirs. What
/// the governor does, and when a program is left alone: docs/openmp.md.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada omp -- ./solver input\n  tanada omp --profile solver.profile -o page.html -- ./solver input\n  \
    tanada omp --governor fixed --threads 4 -- ./solver input\n  tanada omp --dry-run --json regions.json -- ./solver input"
)]
pub(crate) struct Args {
    /// What decides: all, fixed, oracle, probe or predict
    #[arg(long, value_name = "NAME", default_value = "predict")]
    governor: String,

    /// The threads of every region, for `--governor fixed`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    threads: Option<u32>,

    /// How threads wait, for `--governor fixed`: as-is, spin, sleep, or sleep:NANOSECONDS of spinning before
    #[arg(long, value_name = "HOW")]
    waiting: Option<String>,

    /// Only observe: every region runs as without us
    #[arg(long)]
    dry_run: bool,

    /// Start with what an earlier run measured, if the file is there, and write it at the end
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,

    /// The OpenMP runtime: own, the program's; llvm, LLVM's in the place of libgomp, if the program needs nothing that it lacks; auto,
    /// LLVM's if OMP_NUM_THREADS is more than there are hardware threads and nothing speaks against it, else own
    #[arg(long, value_name = "WHICH", default_value = "auto", value_parser = ["auto", "own", "llvm"])]
    runtime: String,

    /// Run the program's tasks, too, under a policy
    #[arg(long, value_name = "POLICY", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    tasks: Option<String>,

    /// Write the regions as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a page with the regions and their teams over time
    #[arg(short = 'o', long = "html", value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print no table
    #[arg(short, long)]
    quiet: bool,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM ARGS")]
    program: Vec<OsString>,
}

/// Runs the program. Returns its exit code; if a signal ended it, the same signal ends this process.
pub(crate) fn run(args: &Args) -> ExitCode {
    let program = match check(args).and_then(|()| Program::find(&args.program)) {
        Ok(program) => program,
        Err(failure) => return ui::exit_code(Err(failure)),
    };
    let ended = match program.run(args) {
        Ok(ended) => ended,
        Err(failure) => return ui::exit_code(Err(failure)),
    };
    let written = report(args, &ended);
    if let Some(signal) = ended.signal {
        if let Err(failure) = written {
            ui::exit_code(Err(failure));
        }
        program::end_by(signal);
    }
    match ended.code {
        0 => ui::exit_code(written),
        code => {
            if let Err(failure) = written {
                ui::exit_code(Err(failure));
            }
            ExitCode::from(code)
        }
    }
}

/// Refuses arguments that contradict each other, before the program starts.
fn check(args: &Args) -> Outcome {
    let usage = |text: String| Err(Failure::Usage(text));
    let governor =
        regions::find(&args.governor).map_err(|error| Failure::Usage(error.to_string()))?;
    let wants = args.threads.is_some() || args.waiting.is_some();
    if governor.needs_shape && !wants {
        return usage(format!(
            "--governor {} needs --threads or --waiting",
            governor.name
        ));
    }
    if !governor.needs_shape && wants {
        return usage("--threads and --waiting are for --governor fixed".to_owned());
    }
    if governor.needs_profile && args.profile.is_none() {
        return usage(format!("--governor {} needs --profile", governor.name));
    }
    if let Some(text) = &args.waiting {
        let time = text.strip_prefix("sleep:").map(str::parse::<u32>);
        if !["as-is", "spin", "sleep"].contains(&text.as_str()) && !matches!(time, Some(Ok(_))) {
            return usage(format!(
                "--waiting {text}: expected as-is, spin, sleep or sleep:NANOSECONDS"
            ));
        }
    }
    let outputs = [&args.json, &args.html, &args.profile];
    let outputs: Vec<&Path> = outputs
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    // What a word means is the program's affair: each may be a file that the program reads.
    let found = emulator::find(&args.program[0]);
    let words = args.program.iter();
    let inputs = words.flat_map(|word| emulator::possible_files(word));
    ui::not_closed(outputs.iter().copied())?;
    Ok(distinct(inputs.chain(found.as_deref()), outputs)?)
}

/// Prints and writes what there is to say of a run.
fn report(args: &Args, ended: &program::Ended) -> Outcome {
    let Some(words) = &ended.board else {
        return Ok(());
    };
    let run = Run::read(words, args, ended);
    if !args.quiet {
        ui::note(run.table().trim_end());
    }
    let write = |path: &PathBuf, text: String| -> Outcome {
        Ok(OutputFile::open(path)?.finish(text.as_bytes())?)
    };
    if let Some(path) = &args.json {
        write(path, ui::json(&run))?;
    }
    if let Some(path) = &args.html {
        write(path, page::page(&run))?;
    }
    Ok(())
}
