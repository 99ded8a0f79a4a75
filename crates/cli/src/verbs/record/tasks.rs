//! `tanada record -- PROGRAM ARGS` of a program that is built on the runtime, or with `--omp-tasks`: its tasks.

use super::program::{Program, Recorded, aside};
use crate::emulator::{Executable, Piece, Tasks};
use crate::ui::{Failure, Outcome, Watched, at_fault, note};
use crate::verbs::charging;
use crate::verbs::omp::symbols::Symbols;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use tanada_trace::threads::spool::assemble;
use tanada_trace::threads::{ThreadTrace, ThreadWriter};
use tanada_trace::{FileSink, TraceError, import};

pub(super) fn run(args: &Program, path: &Path, output: &Path, tasks: Tasks) -> Outcome {
    let program = args.program[0].to_string_lossy();
    if tasks == Tasks::OpenMp {
        let executable = Executable::read(path).map_err(|why| at_fault(&program, why))?;
        if !executable.is_native() {
            let why = "its tasks of OpenMP cannot be recorded, because it is for another processor";
            return Err(at_fault(&program, why));
        }
        if !executable.dynamic {
            let why = "its tasks of OpenMP cannot be recorded, because it is linked statically";
            return Err(at_fault(&program, why));
        }
    }
    let pieces = [
        ("--from", args.from.is_some()),
        ("--to", args.to.is_some()),
        ("--skip", args.skip.is_some()),
        ("--take", args.take.is_some()),
    ];
    if let Some((option, _)) = pieces.iter().find(|(_, given)| *given) {
        let why = format!(
            "{program} is built on the Tanada runtime, whose tasks are recorded as a whole: no `{option}`"
        );
        return Err(Failure::Usage(why));
    }
    let failed = |error: TraceError| Failure::Input(error.to_string());
    // Found before the program runs, which may take long.
    let mut file = FileSink::create(output).map_err(failed)?;
    let piece = Piece {
        tasks: Some(tasks),
        ..Piece::default()
    };
    let recorded = Recorded::of(args, path, &piece, output)?;
    if recorded.ended.interrupted {
        return Err(Failure::Interrupted);
    }
    let imported = import(args, &recorded, tasks, &mut file);
    if recorded.cancel.is_cancelled() {
        return Err(Failure::Interrupted);
    }
    let imported = imported.map_err(failed)?;
    if !imported.marked {
        let why = match tasks {
            Tasks::Runtime => {
                "it made no pool of the Tanada runtime, so there are no tasks to record"
            }
            Tasks::OpenMp => {
                "it made no tasks of OpenMP that can be recorded (if there is a reason, it stands above)"
            }
        };
        return Err(at_fault(program, why));
    }
    if imported.tasks == 0 {
        note(&format!(
            "tanada: {program} ran no task: the trace is empty"
        ));
    }
    file.finish().map_err(failed)?;
    charging::tell(&program, output, &imported, args.json, aside)
}

/// Makes the tasks of what the recorder left.
fn import(
    args: &Program,
    recorded: &Recorded,
    tasks: Tasks,
    file: &mut FileSink,
) -> Result<import::Imported, TraceError> {
    let spool = recorded.emulated.spool();
    let unnamed = recorded.emulated.another().map_err(TraceError::from)?;
    let path = unnamed.path();
    let out = BufWriter::new(File::create(&path).map_err(TraceError::from)?);
    let mut writer = ThreadWriter::new(out, "", recorded.executable.set)?;
    assemble(&spool, &mut writer)?;
    drop(writer.finish()?.into_inner());
    let threads = ThreadTrace::open(&path)?;
    let marks = recorded.emulated.marks().unwrap_or_default();
    let list = File::open(&marks).map_err(TraceError::from)?;
    let length = list.metadata().map_err(TraceError::from)?.len();
    let list = Watched::new(list, &recorded.cancel, Some(length >> 20), "MB of marks");
    let (name, options) = ("the marks of its tasks", args.charging.options(true));
    match tasks {
        Tasks::Runtime => import::tasks(&threads, list, name, options, file),
        Tasks::OpenMp => {
            let mut symbols = Symbols::default();
            let mut name_of = |path: &str, offset| name_of(&mut symbols, path, offset);
            import::openmp_tasks(&threads, list, name, options, &mut name_of, file)
        }
    }
}

/// Returns how tasks are called whose code is at `offset` of a file: file and line of the source, or else the compiler's name, or else the
/// place.
fn name_of(symbols: &mut Symbols, path: &str, offset: u64) -> String {
    let place = symbols.find(path, offset);
    let symbol = |symbols: &mut Symbols| symbols.symbol(path, offset);
    let name = place.line.or_else(|| symbol(symbols));
    name.unwrap_or_else(|| {
        let file = path.rsplit('/').next().unwrap_or_default();
        format!("{file}+{offset:#x}")
    })
}
