//! `tanada record -- PROGRAM ARGS` of a program that is not built on the runtime: a thread trace.

use super::program::{Program, Recorded, aside};
use crate::emulator::{Emulated, Ended, Executable, Piece};
use crate::ui::{self, Failure, Outcome, OutputFile, at_fault, note};
use std::io::BufWriter;
use std::path::Path;
use tanada_trace::TraceError;
use tanada_trace::threads::spool::{Assembled, assemble};
use tanada_trace::threads::{ThreadTrace, ThreadWriter};

/// What `--json` prints.
#[derive(serde::Serialize)]
struct Summary<'a> {
    program: &'a str,
    output: String,
    instruction_set: &'static str,
    threads: usize,
    instructions: u64,
    loads: u64,
    stores: u64,
    /// Further accesses of the emulator, which are parts of these.
    parts: u64,
    /// Locks, barriers and the like.
    objects: usize,
    synchronised: bool,
    partial: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

pub(super) fn run(args: &Program, path: &Path, output: &Path) -> Outcome {
    let program = args.program[0].to_string_lossy();
    if let Some(option) = args.charging.given() {
        let why = format!(
            "{program} is recorded thread by thread, and the machine says what instructions cost: no `{option}`"
        );
        return Err(Failure::Usage(why));
    }
    let piece = Piece {
        from: args.from,
        to: args.to,
        skip: args.skip,
        take: args.take,
        count: args.count,
        tasks: None,
    };
    // Found before the program runs, which may take long.
    let file = OutputFile::open(output)?;
    let Recorded {
        emulated,
        executable,
        ended,
        ..
    } = Recorded::of(args, path, &piece, output)?;
    if let Some([instructions, accesses]) = ended.counted {
        return ui::print(&format!(
            "{{\"instructions\":{instructions},\"accesses\":{accesses}}}\n"
        ));
    }
    if ended.unopened {
        return Err(at_fault(
            &program,
            "it ended before the piece that was to be recorded began; no trace was written",
        ));
    }
    if ended.interrupted {
        ui::keep_going();
    }
    let written = write(args, &ended, executable, &emulated, output, file);
    let (assembled, partial) = written.map_err(|error| Failure::Input(error.to_string()))?;
    let Some(assembled) = assembled else {
        return Err(Failure::Interrupted);
    };
    report(args, &ended, executable, output, &assembled, partial)?;
    match ended.interrupted {
        true => Err(Failure::Kept(output.to_owned())),
        false => Ok(()),
    }
}

/// Makes the trace of the spool. Returns nothing if a signal came before any block was complete: then there is no trace.
fn write(
    args: &Program,
    ended: &Ended,
    executable: Executable,
    emulated: &Emulated,
    output: &Path,
    file: OutputFile,
) -> Result<(Option<Assembled>, bool), TraceError> {
    let spool = &*emulated.spool();
    let name = args.program[0].to_string_lossy();
    let name = name
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .replace(['\n', '\r'], " ");
    let piece =
        args.from.is_some() || args.to.is_some() || args.skip.is_some() || args.take.is_some();
    let partial = ended.interrupted || piece;
    let as_text = output.extension().is_some_and(|end| end == "tnt");
    let of_file = |error: TraceError| error.of_file(&output.display().to_string());
    if ended.interrupted && std::fs::metadata(spool).map_or(0, |file| file.len()) == 0 {
        return Ok((None, partial));
    }
    let assembled = if as_text {
        let unnamed = emulated.another().map_err(TraceError::from)?;
        let binary = unnamed.path();
        let out = BufWriter::new(std::fs::File::create(&binary).map_err(TraceError::from)?);
        let mut writer = ThreadWriter::new(out, &name, executable.set)?;
        writer.declare(partial, !ended.synchronised);
        let assembled = assemble(spool, &mut writer)?;
        drop(writer.finish()?.into_inner());
        let mut out = BufWriter::new(file);
        ThreadTrace::open(&binary)?
            .write_text(&mut out)
            .map_err(of_file)?;
        let file = out
            .into_inner()
            .map_err(|error| TraceError::from(error.into_error()));
        file.and_then(|file| Ok(file.keep()?)).map_err(of_file)?;
        assembled
    } else {
        let mut writer = ThreadWriter::new(BufWriter::new(file), &name, executable.set)?;
        writer.declare(partial, !ended.synchronised);
        let assembled = assemble(spool, &mut writer).map_err(of_file)?;
        writer.keep().map_err(of_file)?;
        assembled
    };
    Ok((Some(assembled), partial))
}

fn report(
    args: &Program,
    ended: &Ended,
    executable: Executable,
    output: &Path,
    assembled: &Assembled,
    partial: bool,
) -> Outcome {
    let program = args.program[0].to_string_lossy();
    if !ended.synchronised {
        let why = match executable.dynamic {
            true if ended.taken => "the piece ended before the recorder's library was loaded",
            true => "its loader did not load the recorder's library",
            false => "it is linked statically",
        };
        note(&format!(
            "tanada: {program}: {why}, so synchronisation was not recorded"
        ));
    }
    if !ended.taken && !ended.interrupted && (args.to.is_some() || args.take.is_some()) {
        note(&format!(
            "tanada: {program}: it ended before the piece did: the trace goes to the program's end"
        ));
    }
    if ended.unknown {
        note(&format!(
            "tanada: {program}: threads that it started without pthread_create are not recorded"
        ));
    }
    if ended.openmp_tasks {
        note(&format!(
            "tanada: {program}: OpenMP tasks are recorded in the threads that ran them this time; `--omp-tasks` records them as tasks"
        ));
    }
    let file = std::fs::metadata(output)
        .ok()
        .filter(std::fs::Metadata::is_file);
    let bytes = file.map(|file| file.len());
    let Assembled {
        threads,
        totals,
        objects,
    } = *assembled;
    if args.json {
        return ui::print(&ui::json(&Summary {
            program: &program,
            output: output.display().to_string(),
            instruction_set: executable.set.name(),
            threads,
            instructions: totals.instructions,
            loads: totals.loads,
            stores: totals.stores,
            parts: ended.parts,
            objects,
            synchronised: ended.synchronised,
            partial,
            bytes,
        }));
    }
    aside(&format!(
        "{}: {} instructions ({}), {} loads, {} stores, {} {}, {} {}{}\n",
        output.display(),
        totals.instructions,
        executable.set.name(),
        totals.loads,
        totals.stores,
        threads,
        if threads == 1 { "thread" } else { "threads" },
        objects,
        if objects == 1 {
            "lock or barrier"
        } else {
            "locks and barriers"
        },
        bytes.map_or(String::new(), |bytes| format!(", {bytes} bytes")),
    ))
}
