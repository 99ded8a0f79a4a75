//! LU and FFT as MIPS-I programs, recorded thread by thread.

use super::published::{Program, Recording};
use crate::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tanada_runtime::Cancel;
use tanada_trace::threads::ThreadTrace;
use tanada_workloads::kernels::{self, Isa, MARK_BEGIN, MARK_END};

/// The matrix: one array (SPLASH-2's non-contiguous program), or each block in one piece (its contiguous one).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Array,
    Contiguous,
}

impl Layout {
    pub(super) fn name(self) -> &'static str {
        match self {
            Layout::Array => "array",
            Layout::Contiguous => "contiguous",
        }
    }
}

/// Rows of LU's matrix in Table 2. The paper does not say how many; chosen on Table 2 among multiples of 16 (docs/reproduce-smt.md).
const FIRST_SIZE: &str = "160";

/// Returns the arguments of a program: 1/8 of LU's work and about 1/5 of FFT's if it is `quick`, but for Table 2.
pub(super) fn arguments(
    program: Program,
    recording: Recording,
    layout: Layout,
    quick: bool,
) -> Vec<String> {
    let logical = recording.logical().to_string();
    let mut arguments = vec!["-p".to_owned(), logical, "-n".to_owned()];
    match program {
        Program::Lu => {
            let layout = match layout {
                Layout::Array => "0",
                Layout::Contiguous => "1",
            };
            let size = match recording {
                Recording::First(_) => FIRST_SIZE,
                _ if quick => "256",
                _ => "512",
            };
            arguments.extend([size, "--layout", layout].map(str::to_owned));
        }
        Program::Fft => arguments.push((1_u64 << if quick { 14 } else { 16 }).to_string()),
    }
    arguments
}

/// Returns a time at full size, scaled to a program of this size: there are as many periods in either.
pub(super) fn scaled(cycles: u64, program: Program, quick: bool) -> u64 {
    match (quick, program) {
        (false, _) => cycles,
        (true, Program::Lu) => cycles / 8,
        // 2^14 x 14 of 2^16 x 16 butterflies.
        (true, Program::Fft) => cycles * 14 / 64,
    }
}

/// Compiles a program for MIPS-I into `folder`, and records its measured part there with the command `tanada`.
///
/// # Errors
/// If there is no compiler or emulator (the error names the package), the program fails, or `cancel` stopped it.
pub(super) fn record(
    tanada: &Path,
    program: &str,
    arguments: &[String],
    folder: &Path,
    cancel: &Cancel,
) -> Result<PathBuf, Error> {
    record_moved(tanada, program, arguments, 0, folder, cancel)
}

/// As [`record`], with the first thread's stack `moved` bytes lower, if that is not 0: by a variable of the environment, which lies above
/// it.
pub(super) fn record_moved(
    tanada: &Path,
    program: &str,
    arguments: &[String],
    moved: u64,
    folder: &Path,
    cancel: &Cancel,
) -> Result<PathBuf, Error> {
    let input = |error: &dyn std::fmt::Display| Error::Input(error.to_string());
    let binary = kernels::build(program, Isa::Mips1, folder).map_err(|error| input(&error))?;
    let trace = folder.join(format!("{program}{}-{moved}.tnb", arguments.join("")));
    let mut command = Command::new(tanada);
    // A recording has the same bytes for every user only if the program has the same name, arguments and environment.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_none_or(of_the_user) {
            command.env_remove(name);
        }
    }
    command
        .current_dir(folder)
        .arg("record")
        .args(["--env", "PATH=/usr/bin:/bin", "--env", "HOME=/"])
        .arg("-o")
        .arg(&trace)
        .args(["--from", &MARK_BEGIN.to_string()])
        .args(["--to", &MARK_END.to_string()]);
    if moved > 0 {
        // `X=`, and a zero at the end.
        let rest = usize::try_from(moved).unwrap_or(0).saturating_sub(3);
        command.arg("--env").arg(format!("X={}", "0".repeat(rest)));
    }
    let name = binary.file_name().unwrap_or_default();
    command
        .arg("--")
        .arg(Path::new(".").join(name))
        .args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let said = folder.join("said.txt");
    let file = std::fs::File::create(&said).map_err(|error| input(&error))?;
    command.stderr(file);
    let mut child = command
        .spawn()
        .map_err(|error| Error::Input(format!("{}: {error}", tanada.display())))?;
    let status = loop {
        if cancel.is_cancelled() {
            // The command ends what it started when it is interrupted; it may have ended by itself.
            let _ = Command::new("kill")
                .arg("-INT")
                .arg(child.id().to_string())
                .status();
            let _ = child.wait();
            return Err(Error::Cancelled);
        }
        match child.try_wait().map_err(|error| input(&error))? {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    if !status.success() {
        let said = std::fs::read_to_string(&said).unwrap_or_default();
        let said = said.trim();
        let said = if said.is_empty() {
            "it says nothing"
        } else {
            said
        };
        return Err(Error::Input(format!(
            "{program} cannot be recorded: {said}"
        )));
    }
    Ok(trace)
}

/// Returns whether `tanada record` would hand this variable on, though it says nothing to the program.
fn of_the_user(name: &str) -> bool {
    name == "LANG" || name == "LD_LIBRARY_PATH" || name.starts_with("LC_")
}

/// Opens a recording.
///
/// # Errors
/// If it is none.
pub(super) fn open(path: &Path) -> Result<ThreadTrace, Error> {
    ThreadTrace::open(path).map_err(|error| Error::Input(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::published::MAIN;
    use super::*;

    #[test]
    fn a_command_that_fails_or_is_not_there_is_an_error_with_its_words() {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = arguments(Program::Fft, MAIN, Layout::Array, true);
        assert_eq!(arguments, ["-p", "16", "-n", "16384"]);
        let missing = folder.path().join("no-such-command");
        for command in [missing.as_path(), Path::new("/bin/false")] {
            let recorded = record(command, "fft", &arguments, folder.path(), &Cancel::new());
            let Err(Error::Input(message)) = recorded else {
                panic!("{recorded:?}");
            };
            // Without the cross compiler the message names its package.
            let right = [
                "no-such-command",
                "fft cannot be recorded",
                "apt-get install gcc-mipsel-linux-gnu",
            ];
            assert!(
                right.iter().any(|words| message.contains(words)),
                "{message}"
            );
        }
        assert!(matches!(open(&missing), Err(Error::Input(_))));
    }

    #[test]
    fn quick_periods_are_as_many_as_full_ones() {
        assert_eq!(scaled(1_000_000, Program::Fft, false), 1_000_000);
        assert_eq!(scaled(1_000_000, Program::Lu, true), 125_000);
    }
}
