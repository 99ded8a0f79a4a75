//! `tanada record -- PROGRAM ARGS`.

use super::{tasks, threads};
use crate::emulator::{self, Emulated, Ended, Executable, Piece, Tasks};
use crate::ui::{self, Outcome, at_fault};
use crate::verbs::charging::Charging;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use tanada_runtime::{Cancel, RECORDABLE};
use tanada_trace::output::distinct;

#[derive(Debug, clap::Args)]
pub(crate) struct Program {
    /// Where the trace of PROGRAM goes: text if the name ends with .tnt, else binary [default: PROGRAM.tnb]
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    #[command(flatten)]
    pub(super) charging: Charging,

    /// Print a summary as JSON; what PROGRAM prints goes to standard error then
    #[arg(long)]
    pub(super) json: bool,

    /// Record from the first mark of this kind on, see docs/recording.md
    #[arg(long, value_name = "KIND", conflicts_with = "skip", value_parser = kind)]
    pub(super) from: Option<u32>,

    /// End the recording, and the program, at the first mark of this kind after that
    #[arg(long, value_name = "KIND", value_parser = kind)]
    pub(super) to: Option<u32>,

    /// Record after this many instructions of the first thread
    #[arg(long, value_name = "N")]
    pub(super) skip: Option<u64>,

    /// End the recording, and the program, after this many more instructions of the first thread, at the end of their block of code
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) take: Option<u64>,

    /// Only count instructions and accesses to memory, with counters in the emulator's own code: write no trace
    #[arg(long, hide = true)]
    pub(super) count: bool,

    /// Give PROGRAM this variable, beside PATH, HOME, LANG, LC_*, LD_LIBRARY_PATH and those of OpenMP
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(super) env: Vec<String>,

    /// Record the program's tasks of OpenMP, with the dependences of their `depend` clauses: a task trace
    #[arg(long, conflicts_with_all = ["from", "to", "skip", "take", "count"])]
    pub(super) omp_tasks: bool,

    /// Install the package qemu-user if it is missing (as root, on Debian and its relatives)
    #[arg(long)]
    pub(super) install: bool,

    /// A program and its arguments. It runs in an emulator; if it is built on the Tanada runtime, on one worker
    #[arg(last = true, value_name = "PROGRAM ARGS")]
    pub(super) program: Vec<OsString>,
}

/// Returns the kind of a program's own marks that `text` names.
fn kind(text: &str) -> Result<u32, String> {
    let kind = text.parse().ok().filter(|kind| *kind < 192);
    kind.ok_or_else(|| "a kind is a number from 0 to 191".to_owned())
}

/// Returns `text` if it is a variable with a value.
fn variable(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some(("LD_PRELOAD" | "LD_BIND_NOW", _)) => {
            Err("the recorder sets this variable".to_owned())
        }
        Some((name, _)) if !name.is_empty() => Ok(text.to_owned()),
        _ => Err("a variable is NAME=VALUE".to_owned()),
    }
}

impl Program {
    /// Returns whether there is a program.
    pub(super) fn is_given(&self) -> bool {
        !self.program.is_empty()
    }
}

pub(super) fn run(args: &Program) -> Outcome {
    let program = args.program[0].to_string_lossy();
    let output = match &args.output {
        Some(output) => output.clone(),
        None => default_output(Path::new(&args.program[0])),
    };
    // What a word means is the program's affair: each may be a file that the program reads.
    let found = emulator::find(&args.program[0]);
    let words = args
        .program
        .iter()
        .flat_map(|word| emulator::possible_files(word));
    // The program reads the standard input of this process.
    let inputs = words
        .chain(found.as_deref())
        .chain([Path::new("/dev/stdin")]);
    ui::not_closed([&*output])?;
    distinct(inputs, [&*output])?;
    let path = found.as_deref().ok_or_else(|| {
        at_fault(
            &program,
            "there is no such program, or it is not executable",
        )
    })?;
    let tasks = is_built_on_the_runtime(path).map_err(|why| at_fault(&program, why))?;
    match tasks && !args.count {
        _ if args.omp_tasks => tasks::run(args, path, &output, Tasks::OpenMp),
        true => tasks::run(args, path, &output, Tasks::Runtime),
        false => threads::run(args, path, &output),
    }
}

/// Prints for people to standard error: standard output is the program's, and may go on in a pipe.
pub(super) fn aside(text: &str) -> Outcome {
    ui::note(text.trim_end());
    Ok(())
}

/// What the recorder left of a program.
pub(super) struct Recorded {
    /// Holds the files.
    pub(super) emulated: Emulated,
    pub(super) executable: Executable,
    pub(super) ended: Ended,
    /// Whether a signal has come.
    pub(super) cancel: Cancel,
}

impl Recorded {
    /// Runs the program at `path` in its emulator, to its end or until Ctrl-C, and records it; the files lie beside `output`.
    pub(super) fn of(args: &Program, path: &Path, piece: &Piece, output: &Path) -> Outcome<Self> {
        let program = args.program[0].to_string_lossy();
        let executable = Executable::read(path).map_err(|why| at_fault(&program, why))?;
        if args.install {
            emulator::install(executable)?;
        }
        let beside = match output.parent() {
            Some(folder)
                if !folder.as_os_str().is_empty() && (output.is_file() || !output.exists()) =>
            {
                folder
            }
            _ => Path::new("."),
        };
        let cancel = ui::interruptible();
        let mut emulated = Emulated::start(
            &args.program,
            path,
            executable,
            piece,
            beside,
            &args.env,
            args.json,
        )?;
        let ended = emulated.wait(&cancel)?;
        Ok(Recorded {
            emulated,
            executable,
            ended,
            cancel,
        })
    }
}

/// Returns whether a program can make a pool of the runtime: its file, or a library that it links, has the runtime in it.
///
/// # Errors
/// If the file cannot be read, or its libraries cannot be listed.
fn is_built_on_the_runtime(program: &Path) -> Result<bool, String> {
    let holds = |bytes: &[u8]| memchr::memmem::find(bytes, &RECORDABLE).is_some();
    let bytes = std::fs::read(program).map_err(|error| error.to_string())?;
    if bytes.starts_with(b"#!") {
        return Err("it is a script; name the program that it runs".to_owned());
    }
    if holds(&bytes) {
        return Ok(true);
    }
    // Lines such as `libm.so.6 => /lib/libm.so.6 (0x7f00)`; of a program without libraries it prints none.
    let listed = match Command::new("ldd").arg(program).output() {
        Ok(ldd) => ldd.stdout,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(format!("ldd, which lists its libraries: {error}")),
    };
    let listed = String::from_utf8_lossy(&listed);
    let mut libraries = listed
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    Ok(libraries.any(|library| holds(&std::fs::read(library).unwrap_or_default())))
}

/// Returns the file in the current folder that has the program's name.
fn default_output(program: &Path) -> PathBuf {
    let mut name = program.file_name().unwrap_or_default().to_owned();
    name.push(".tnb");
    PathBuf::from(name)
}
