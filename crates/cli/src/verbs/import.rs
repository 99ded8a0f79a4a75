//! `tanada import`.

use crate::ui::{self, Failure, Outcome, Watched, at_fault};
use crate::verbs::charging::{self, Charging};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tanada_trace::{FileSink, TraceError, import};

/// Turn a memory trace of another tool into a trace
///
/// Reads the log of Valgrind's lackey (valgrind --tool=lackey --trace-mem=yes --log-file=FILE PROGRAM) or a trace in one of Dinero's text
/// formats. Everything becomes one task.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada import program.log -o program.tnb\n  \
    tanada import trace.din -o trace.tnt --fetch each --cycles-per-instruction 0"
)]
pub(crate) struct Args {
    /// The trace to read; `-`: standard input
    #[arg(value_name = "FILE")]
    input: PathBuf,

    /// Where the trace goes: text if the name ends with .tnt, else binary
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// What FILE is [default: dinero if its name ends with .din or .xdin, else lackey]
    #[arg(long, value_name = "FORM")]
    from: Option<Form>,

    /// Number pages of 4 KiB in the order in which they are first touched
    #[arg(long)]
    renumber: bool,

    #[command(flatten)]
    charging: Charging,

    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// The log of Valgrind's lackey
    Lackey,
    /// Dinero's traditional and extended text formats
    Dinero,
}

/// Returns the form of `path`, by its name.
fn form(path: &Path) -> Form {
    match path.extension() {
        Some(end) if end == "din" || end == "xdin" => Form::Dinero,
        _ => Form::Lackey,
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let form = args.from.unwrap_or_else(|| form(&args.input));
    let standard = args.input.as_os_str() == "-";
    let file = match standard {
        true => Path::new("/dev/stdin"),
        false => &args.input,
    };
    ui::distinct([file], [&*args.output])?;
    let (name, input): (String, Box<dyn Read>) = match standard {
        true => ("standard input".to_owned(), Box::new(io::stdin().lock())),
        false => {
            let name = args.input.display().to_string();
            let file = File::open(&args.input).map_err(|error| at_fault(&name, error))?;
            (name, Box::new(file))
        }
    };
    let failed = |error: TraceError| Failure::Input(error.to_string());
    let cancel = ui::interruptible();
    let mut file = FileSink::create(&args.output).map_err(failed)?;
    let data = std::fs::metadata(&args.input).ok();
    let data = data.filter(|data| data.is_file());
    let mut input = Watched::new(input, &cancel, data.map(|data| data.len() >> 20), "MB");
    let options = args.charging.options(args.renumber);
    let imported = match form {
        Form::Lackey => import::lackey(&mut input, &name, options, &mut file),
        Form::Dinero => import::dinero(&mut input, &name, options, &mut file),
    };
    let is_empty = input.ended && input.bytes == 0;
    drop(input);
    if cancel.is_cancelled() {
        return Err(Failure::Interrupted);
    }
    let imported = imported.map_err(failed)?;
    if is_empty {
        return Err(at_fault(name, "it is empty"));
    }
    file.finish().map_err(failed)?;
    charging::tell(&name, &args.output, &imported, args.json, ui::print)
}
