//! The program: found, looked at, started with the library, and waited for.

use super::{Args, board, energy::Energy};
use crate::emulator::{self, Executable};
use crate::ui::{self, Failure, Outcome, at_fault};
use object::{Object as _, ObjectSymbol as _};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpgrp, kill_process, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// LLVM's runtime, by the names that it has in distributions.
const LLVM: [&str; 3] = ["libomp.so.5", "libomp.so", "libiomp5.so"];

/// Folders that are searched for it beside those of `LD_LIBRARY_PATH`.
const FOLDERS: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/opt/intel/oneapi/compiler/latest/lib",
];

/// A program that is there.
pub(super) struct Program {
    words: Vec<OsString>,
    path: PathBuf,
    /// Why the library cannot be loaded into it.
    alone: Option<String>,
}

/// How a run ended.
#[derive(Default)]
pub(super) struct Ended {
    /// The exit code; 0 if a signal ended it.
    pub(super) code: u8,
    /// The signal that ended it.
    pub(super) signal: Option<i32>,
    pub(super) seconds: f64,
    pub(super) joules: Option<f64>,
    /// The library's board; `None` if it was not to be loaded.
    pub(super) board: Option<Vec<u64>>,
}

impl Program {
    /// Finds the program that the first of `words` names.
    pub(super) fn find(words: &[OsString]) -> Outcome<Program> {
        let name = words[0].to_string_lossy();
        let path = emulator::find(&words[0])
            .ok_or_else(|| at_fault(&name, "there is no such program, or it is not executable"))?;
        let alone = why_alone(&path);
        Ok(Program {
            words: words.to_owned(),
            path,
            alone,
        })
    }

    /// Runs the program to its end.
    pub(super) fn run(&self, args: &Args) -> Outcome<Ended> {
        let name = self.words[0].to_string_lossy();
        let mut command = Command::new(&self.path);
        command.args(&self.words[1..]);
        std::os::unix::process::CommandExt::arg0(&mut command, &self.words[0]);
        let loaded = match &self.alone {
            Some(why) => {
                ui::note(&format!("tanada: {name}: {why}; it runs as without us"));
                None
            }
            None => Some(Loaded::new(args, &self.path, &mut command)?),
        };
        let (energy, since) = (Energy::start(), Instant::now());
        let mut child = command.spawn().map_err(|error| at_fault(&name, error))?;
        let pid = Pid::from_child(&child);
        forward(pid);
        // Waiting without an end: the number stays the child's until nothing is forwarded any more.
        let _ = waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        );
        CHILD.store(0, Ordering::SeqCst);
        let status = child.wait().map_err(|error| at_fault(&name, error))?;
        Ok(Ended {
            code: status.code().unwrap_or(0) as u8,
            signal: status.signal(),
            seconds: since.elapsed().as_secs_f64(),
            joules: energy.joules(),
            board: loaded.and_then(|loaded| loaded.read()),
        })
    }
}

/// The files in memory that the program has open by the number of this process: nothing is left of them when both have ended.
struct Loaded {
    _library: OwnedFd,
    board: File,
}

impl Loaded {
    /// Puts the library and the board in place, and says so in the environment of `command`.
    fn new(args: &Args, path: &Path, command: &mut Command) -> Outcome<Loaded> {
        let unavailable = |error: std::io::Error| at_fault("a file in memory", error);
        let memory = |name: &str| {
            memfd_create(name, MemfdFlags::CLOEXEC).map_err(|error| unavailable(error.into()))
        };
        let library = memory("libtanada_omp.so")?;
        let mut file = File::from(library);
        file.write_all(emulator::ADAPTER).map_err(unavailable)?;
        let library = OwnedFd::from(file);
        let board = File::from(memory("tanada-board")?);
        let visible = |fd: i32| format!("/proc/{}/fd/{fd}", std::process::id());
        let mut preload = vec![visible(library.as_raw_fd())];
        let runtime = match &*args.runtime {
            "llvm" => Some(llvm(path)?),
            "auto" => better(args, path),
            _ => None,
        };
        preload.extend(runtime.map(|path| path.to_string_lossy().into_owned()));
        let mut settings = vec![
            format!("governor={}", args.governor),
            format!("board={}", visible(board.as_raw_fd())),
            format!("own={}", preload.len()),
        ];
        settings.extend(args.threads.map(|threads| format!("threads={threads}")));
        settings.extend(args.waiting.iter().map(|how| format!("waiting={how}")));
        settings.extend(args.dry_run.then(|| "dry-run".to_owned()));
        if args.governor == "predict" && !args.dry_run && sleeps_at_once() {
            command.env(SPINS, SHORT);
            settings.push("spins".to_owned());
        }
        let mut settings = OsString::from(settings.join(","));
        if let Some(profile) = &args.profile {
            let profile =
                std::path::absolute(profile).map_err(|error| at_fault(profile.display(), error))?;
            settings.push(",profile=");
            settings.push(profile);
        }
        let mut preload = OsString::from(preload.join(":"));
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        command
            .env("LD_PRELOAD", preload)
            .env("TANADA_OMP", settings);
        if let Some(policy) = &args.tasks {
            command.env("TANADA_OMP_TASKS", policy);
        }
        Ok(Loaded {
            _library: library,
            board,
        })
    }

    /// Returns the words of the board; `None` if the library did not open it.
    fn read(&self) -> Option<Vec<u64>> {
        let mut bytes = vec![0; board::WORDS * 8];
        self.board.read_exact_at(&mut bytes, 0).ok()?;
        let words = bytes.chunks_exact(8);
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
        Some(words.map(word).collect())
    }
}

/// libgomp's variable for how often members of a team look before they sleep, and about a millisecond of it.
const SPINS: &str = "GOMP_SPINCOUNT";
const SHORT: &str = "100000";

/// Returns whether members of libgomp's teams would sleep at every barrier, as the user wants, who has not said more than that. The
/// governor lets them do so when others want the processor; until then it takes several times as long, and libgomp cannot be told later.
fn sleeps_at_once() -> bool {
    let policy = std::env::var("OMP_WAIT_POLICY").unwrap_or_default();
    policy.trim().eq_ignore_ascii_case("passive") && std::env::var_os(SPINS).is_none()
}

/// Returns why the library cannot be loaded into the program at `path`; `None` if it can.
fn why_alone(path: &Path) -> Option<String> {
    let executable = match Executable::read(path) {
        Ok(executable) => executable,
        Err(why) => return Some(why),
    };
    if !executable.dynamic {
        return Some("it is linked statically, and loads no library".to_owned());
    }
    if !executable.is_native() {
        return Some("it is for another processor".to_owned());
    }
    let data = path.metadata().ok()?;
    /// Set user and set group.
    const SET_ID: u32 = 0o6000;
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let changes = data.permissions().mode() & SET_ID != 0
        && (data.uid() != user.as_raw() || data.gid() != group.as_raw());
    changes.then(|| {
        "it runs as another user (set user), for whom the system loads no library of ours"
            .to_owned()
    })
}

/// Libraries that call no OpenMP runtime: a program that needs no other has one caller of libgomp, itself.
const WITHOUT_OPENMP: [&str; 9] = [
    "libgomp.so.1",
    "libc.so.6",
    "libm.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "libgfortran.so.5",
    "libquadmath.so.0",
];

/// Returns the path of LLVM's runtime, if it is to serve a program of gcc although nobody asked for it: if the user's teams are larger than
/// the machine, libgomp starts and ends threads whenever a team's size changes, and its members spin for others that have no
/// processor. LLVM's does neither.
fn better(args: &Args, path: &Path) -> Option<PathBuf> {
    let asked = std::env::var("OMP_NUM_THREADS").ok()?;
    let asked = asked.split(',').next()?.trim().parse::<usize>().ok()?;
    if asked <= thread::available_parallelism().ok()?.get() {
        return None;
    }
    if args.governor != "predict" || args.dry_run || args.tasks.is_some() {
        return None;
    }
    // What the user says to libgomp alone, LLVM's runtime does not read; and it prints other things.
    let theirs =
        |name: &str| name.starts_with("GOMP_") || ["OMP_DISPLAY_ENV", "OMP_NESTED"].contains(&name);
    if std::env::vars_os().any(|(name, _)| name.to_str().is_some_and(theirs)) {
        return None;
    }
    let libraries = libraries(path)?;
    let known = |name: &String| WITHOUT_OPENMP.contains(&&**name) || name.starts_with("ld-linux");
    if !libraries.iter().all(known) || !libraries.iter().any(|name| name == WITHOUT_OPENMP[0]) {
        return None;
    }
    // LLVM's runtime says on standard error that this function is out of date.
    let warned = symbols(path, true).ok()?.contains("omp_set_nested");
    if warned { None } else { llvm(path).ok() }
}

/// Returns the names of the libraries that the program at `path` is linked with.
fn libraries(path: &Path) -> Option<Vec<String>> {
    use object::read::elf::{Dyn as _, ProgramHeader as _};

    let bytes = std::fs::read(path).ok()?;
    let file = object::read::elf::ElfFile64::<object::Endianness>::parse(&*bytes).ok()?;
    let strings = file.elf_dynamic_symbol_table().strings();
    let (endian, headers) = (file.endian(), file.elf_program_headers());
    let entries = headers
        .iter()
        .find_map(|header| header.dynamic(endian, &*bytes).ok()?)?;
    let needed = entries
        .iter()
        .filter(|entry| entry.tag32(endian) == Some(object::elf::DT_NEEDED));
    let name = |entry: &object::elf::Dyn64<object::Endianness>| {
        let name = strings.get(entry.val32(endian)?).ok()?;
        Some(String::from_utf8_lossy(name).into_owned())
    };
    needed.map(name).collect()
}

/// Returns the path of LLVM's runtime, if it has all that the program at `path` needs of libgomp.
fn llvm(path: &Path) -> Outcome<PathBuf> {
    let folders = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = std::env::split_paths(&folders).chain(FOLDERS.map(PathBuf::from));
    let mut files = folders.flat_map(|folder| LLVM.map(|name| folder.join(name)));
    let runtime = files.find(|file| file.is_file());
    let runtime = runtime.ok_or_else(|| {
        Failure::Input("--runtime llvm: LLVM's runtime (libomp.so.5) is not installed".to_owned())
    })?;
    let needed = symbols(path, true)?;
    let offered = symbols(&runtime, false)?;
    let of_runtime = |name: &&String| {
        name.starts_with("GOMP_") || name.starts_with("omp_") || name.starts_with("GOACC_")
    };
    let mut missing: Vec<&String> = needed
        .iter()
        .filter(of_runtime)
        .filter(|name| !offered.contains(*name))
        .collect();
    missing.sort();
    match missing.first() {
        None => Ok(runtime),
        Some(first) => Err(Failure::Input(format!(
            "--runtime llvm: the program needs {first}, which {} does not have",
            runtime.display()
        ))),
    }
}

/// Returns the names in the dynamic symbol table of a file: those that it needs, or those that it has.
fn symbols(path: &Path, needed: bool) -> Outcome<HashSet<String>> {
    let bytes = std::fs::read(path).map_err(|error| at_fault(path.display(), error))?;
    let file = object::File::parse(&*bytes).map_err(|error| at_fault(path.display(), error))?;
    let all = file.dynamic_symbols();
    let found = all.filter(|symbol| symbol.is_undefined() == needed);
    Ok(found
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .collect())
}

/// The process that signals are handed on to; 0: none.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// Hands signals of this process on to `child`. Those of the terminal reach it without us.
fn forward(child: Pid) {
    CHILD.store(child.as_raw_nonzero().get(), Ordering::SeqCst);
    let all = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
    let Ok(mut signals) = ui::not_ignored(&all) else {
        return;
    };
    // Without the thread a signal ends this process and not the program, which goes on alone.
    let _ = thread::Builder::new().spawn(move || {
        for signal in signals.forever() {
            if [SIGINT, SIGQUIT].contains(&signal) && is_in_front() {
                continue;
            }
            if let (Some(child), Some(signal)) = (
                Pid::from_raw(CHILD.load(Ordering::SeqCst)),
                Signal::from_named_raw(signal),
            ) {
                let _ = kill_process(child, signal);
            }
        }
    });
}

/// Returns whether the terminal, if there is one, sends its signals to this process and its children.
fn is_in_front() -> bool {
    let terminal = File::open("/dev/tty");
    terminal.is_ok_and(|terminal| {
        rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp())
    })
}

/// Ends this process by a signal, as the program ended; never returns.
pub(super) fn end_by(signal: i32) -> ! {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // The program has left its memory already, if it was to.
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    // Signals that do not end a process cannot have ended the program; whatever it was, this ends here.
    thread::sleep(Duration::from_millis(100));
    std::process::exit(128 + signal)
}
