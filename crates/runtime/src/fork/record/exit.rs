//! Reports that are written when the program ends, as the environment says.

use super::{ForkRecorder, Mode};
use crate::error::BuildError;
use crate::process;
use parking_lot::Mutex;
use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

const PROFILE: &str = "TANADA_PROFILE";
const JOINS: &str = "TANADA_PROFILE_JOINS";

/// What is written.
#[derive(Clone, Copy)]
enum Form {
    Html,
    Json,
    Trace,
}

/// The recorder of the environment, and where its report goes.
struct Wanted {
    recorder: ForkRecorder,
    form: Form,
    path: PathBuf,
}

static WANTED: Mutex<Option<Wanted>> = Mutex::new(None);

impl ForkRecorder {
    /// Returns the recorder that the environment variable `TANADA_PROFILE` asks for, the same at each call: `FILE.html` and `FILE.json` for
    /// a report, `FILE.tnt` for a [trace](ForkRecorder::trace). The file is written when the program ends: when `main` returns, or by
    /// `process::exit`; not if a signal or an abort ends it. `TANADA_PROFILE_JOINS=kept` measures as [`ForkRecorder::kept`] does. `None`
    /// without the variable, or if it is empty.
    ///
    /// # Errors
    /// If the file has another extension, or the second variable another value than `kept` and `all`.
    #[inline]
    pub fn of_environment() -> Result<Option<Self>, BuildError> {
        match std::env::var_os(PROFILE).filter(|value| !value.is_empty()) {
            None => Ok(None),
            Some(value) => Self::writing_to(&value).map(Some),
        }
    }

    /// Returns the recorder whose report goes to the file `value`.
    #[cold]
    fn writing_to(value: &OsStr) -> Result<Self, BuildError> {
        let mut wanted = WANTED.lock();
        if let Some(wanted) = wanted
            .as_ref()
            .filter(|wanted| wanted.recorder.0.home.is_this())
        {
            return Ok(wanted.recorder.clone());
        }
        // The program may go to another folder.
        let path = std::path::absolute(value).unwrap_or_else(|_| PathBuf::from(value));
        let form = match path.extension().and_then(|extension| extension.to_str()) {
            Some("html" | "htm") => Form::Html,
            Some("json") => Form::Json,
            Some("tnt") => Form::Trace,
            _ => {
                return Err(BuildError::Environment {
                    variable: PROFILE,
                    value: value.to_string_lossy().into_owned(),
                    wanted: "a file whose name ends in .html, .json or .tnt".into(),
                });
            }
        };
        let joins = std::env::var(JOINS).unwrap_or_default();
        let mode = match (form, joins.as_str()) {
            (Form::Trace, "" | "all") => Mode::Trace,
            (_, "" | "all") => Mode::All,
            (Form::Html | Form::Json, "kept") => Mode::Kept,
            _ => {
                return Err(BuildError::Environment {
                    variable: JOINS,
                    value: joins,
                    wanted: "all, or kept (which no trace can be of)".into(),
                });
            }
        };
        let recorder = ForkRecorder::with(mode);
        let is_first = wanted.is_none();
        *wanted = Some(Wanted {
            recorder: recorder.clone(),
            form,
            path,
        });
        if is_first {
            // SAFETY: the function is an `extern "C"` one that does not unwind.
            let failed = unsafe { libc::atexit(at_exit) };
            if failed != 0 {
                process::report(format_args!(
                    "no report will be written at the end of the program"
                ));
            }
        }
        Ok(recorder)
    }
}

extern "C" fn at_exit() {
    // A panic here would abort the process, and its message was printed.
    drop(catch_unwind(AssertUnwindSafe(write)));
}

fn write() {
    let Some(wanted) = WANTED.try_lock_for(super::LOCKED) else {
        return;
    };
    let Some(Wanted {
        recorder,
        form,
        path,
    }) = &*wanted
    else {
        return;
    };
    // A child of `fork(2)` has measured nothing, and its parent writes the file.
    if !recorder.0.home.is_this() {
        return;
    }
    let text = match form {
        Form::Html => Some(recorder.to_html()),
        Form::Json => Some(recorder.to_json()),
        Form::Trace => recorder.trace(),
    };
    let Some(text) = text else {
        process::report(format_args!(
            "{}: no trace, since the program has more than {} strands",
            path.display(),
            super::MAX_STRANDS
        ));
        return;
    };
    // Through a file beside it, so that the report appears whole or not at all.
    let mut beside = path.clone().into_os_string();
    // By system calls where those of the standard library are functions of the C library that few programs use otherwise: each is a name
    // that the loader looks up at every start of a program.
    beside.push(format!(".{}", rustix::process::getpid()));
    let rename = |()| rustix::fs::rename(&beside, path).map_err(std::io::Error::from);
    if let Err(error) = std::fs::write(&beside, text).and_then(rename) {
        let _ = rustix::fs::unlink(&beside);
        process::report(format_args!("{}: {error}", path.display()));
    }
}
