//! `tanada record -- PROGRAM ARGS`.

use crate::ui::{self, Failure, Outcome, at_fault, note};
use crate::valgrind::{self, Traced};
use crate::verbs::charging::{self, Charging};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tanada_runtime::RECORDABLE;
use tanada_trace::output::distinct;
use tanada_trace::{FileSink, TraceError, import};

#[derive(Debug, clap::Args)]
pub(crate) struct Program {
    /// Where the trace of PROGRAM goes: text if the name ends with .tnt, else binary [default: PROGRAM.tnb]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    charging: Charging,

    /// Print a summary as JSON; what PROGRAM prints goes to standard error then
    #[arg(long)]
    json: bool,

    /// A program that is built on the Tanada runtime, and its arguments: it runs on one worker, under Valgrind
    #[arg(last = true, value_name = "PROGRAM ARGS")]
    program: Vec<OsString>,
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
    let found = valgrind::find(&args.program[0]);
    let words = args.program.iter().flat_map(|word| possible_files(word));
    if let Some(found) = &found {
        built_on_the_runtime(found).map_err(|why| at_fault(&program, why))?;
    }
    // The program reads the standard input of this process.
    let inputs = words
        .chain(found.as_deref())
        .chain([Path::new("/dev/stdin")]);
    ui::not_closed([&*output])?;
    distinct(inputs, [&*output])?;
    let unwritable = |error: TraceError| Failure::Input(error.to_string());
    let cancel = ui::interruptible();
    let mut file = FileSink::create(&output).map_err(unwritable)?;
    let traced = Traced::start(&args.program, args.json)?;
    let name = format!("valgrind's log of {program}");
    let options = args.charging.options(true, true);
    let (imported, ended) = traced.read(&cancel, |log| {
        import::lackey(log, &name, options, &mut file)
    })?;
    if let Some(how) = ended {
        let why = format!("it ended with {how}; no trace was written");
        return Err(at_fault(program, why));
    }
    let imported = imported.map_err(unwritable)?;
    if !imported.marked {
        return Err(at_fault(
            program,
            "it made no pool of the Tanada runtime, so there are no tasks to record",
        ));
    }
    if imported.tasks == 0 {
        note(&format!(
            "tanada: {program} ran no task: the trace is empty"
        ));
    }
    file.finish().map_err(unwritable)?;
    charging::tell(&program, &output, &imported, args.json)
}

/// Returns the files that a word of a command line may name: `FILE`, `-xFILE`, `--option=FILE`, `key@FILE`, `a,FILE`.
fn possible_files(word: &OsStr) -> impl Iterator<Item = &Path> {
    let bytes = word.as_bytes();
    let behind_a_letter = bytes.starts_with(b"-").then_some(2);
    let separated = bytes.iter().enumerate();
    let separated = separated.filter_map(|(at, byte)| b"=@,:".contains(byte).then_some(at + 1));
    let begins = [0].into_iter().chain(behind_a_letter).chain(separated);
    begins.filter_map(|begin| Some(Path::new(OsStr::from_bytes(bytes.get(begin..)?))))
}

/// Refuses a program that cannot make a pool, before it runs for a long time: neither its file nor a library that it links has the runtime
/// in it.
fn built_on_the_runtime(program: &Path) -> Result<(), String> {
    let holds = |bytes: &[u8]| memchr::memmem::find(bytes, &RECORDABLE).is_some();
    let bytes = std::fs::read(program).map_err(|error| error.to_string())?;
    if bytes.starts_with(b"#!") {
        return Err("it is a script; name the program that it runs".to_owned());
    }
    if holds(&bytes) {
        return Ok(());
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
    match libraries.any(|library| holds(&std::fs::read(library).unwrap_or_default())) {
        true => Ok(()),
        false => Err(
            "it is not built with `tanada-runtime`, so it has no tasks to record; \
            `tanada import` reads the memory trace of any program (docs/valgrind.md)"
                .to_owned(),
        ),
    }
}

/// Returns the file in the current folder that has the program's name.
fn default_output(program: &Path) -> PathBuf {
    let mut name = program.file_name().unwrap_or_default().to_owned();
    name.push(".tnb");
    PathBuf::from(name)
}
