//! Programs under QEMU's user-mode emulators with our plugin (`crates/probe`), which records them thread by thread.

use crate::ui::{Failure, Outcome, Progress, at_fault, end_child, ends_with_us, note};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::getuid;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;
use tanada_runtime::Cancel;
use tanada_trace::threads::InstructionSet;
use tanada_workloads::kernels::Isa;

/// The plugin, which the build script compiled.
const PROBE: &[u8] = include_bytes!(env!("TANADA_PROBE"));

/// The library for recorded programs of this machine's own instruction set, compiled by the build script.
const GUEST: &[u8] = include_bytes!(env!("TANADA_GUEST"));

/// The library for OpenMP programs of this machine's own instruction set, which the build script compiled.
pub(crate) const ADAPTER: &[u8] = include_bytes!(env!("TANADA_OPENMP"));

/// Variables by which it reports tasks. A team has one thread, so that one task runs at a time, in the same order each time.
const OPENMP_TASKS: [&str; 5] = [
    "TANADA_OMP_TASKS=serial",
    "TANADA_OMP_MARKS=1",
    "OMP_NUM_THREADS=1",
    "OMP_THREAD_LIMIT=1",
    "KMP_WARNINGS=0", // LLVM's runtime warns when a program asks for more threads
];

/// The source of the other one, for programs of other instruction sets: what is compiled, then what that includes.
const GUEST_SOURCES: [(&str, &str); 5] = [
    ("guest.c", include_str!("../../probe/guest/guest.c")),
    ("marks.h", include_str!("../../probe/guest/marks.h")),
    ("memory.h", include_str!("../../probe/guest/memory.h")),
    ("threads.h", include_str!("../../probe/guest/threads.h")),
    ("openmp.h", include_str!("../../probe/guest/openmp.h")),
];

/// Where the plugin holds the version of the interface: in the 4 bytes before these.
const VERSION_PLACE: &[u8] = b"tanada-probe-version-is-here";

/// The library's file descriptor in the recorded program, if it is free. The library is named by it, because the dynamic linker's accesses
/// depend on each letter of the name, and that of a temporary file changes.
const DESCRIPTOR: i32 = 700;

/// Variables that a recorded program gets from the user's environment; recordings would otherwise differ from shell to shell.
const KEPT: [&str; 5] = ["PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "QEMU_LD_PREFIX"];

/// Beginnings of names of further such variables: the settings of OpenMP.
const KEPT_BEGINNINGS: [&str; 4] = ["LC_", "OMP_", "GOMP_", "KMP_"];

/// A program file, as its ELF header describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Executable {
    pub(crate) set: InstructionSet,
    /// The name of the instruction set in names of emulators, such as `mipsel`.
    arch: &'static str,
    /// Arm code that passes floating-point numbers in integer registers (Debian's `armel`): it loads no libraries of the other kind.
    soft_float: bool,
    /// Whether it loads libraries when it starts.
    pub(crate) dynamic: bool,
}

/// A kind of ELF file: machine, class (1: 32 bits, 2: 64), byte order (1: little), and what it is.
const KINDS: [(u16, u8, u8, &str, InstructionSet); 6] = [
    (62, 2, 1, "x86_64", InstructionSet::X86_64),
    (40, 1, 1, "arm", InstructionSet::Arm),
    (183, 2, 1, "aarch64", InstructionSet::Aarch64),
    (8, 1, 1, "mipsel", InstructionSet::Mips),
    (8, 1, 2, "mips", InstructionSet::Mips),
    (243, 2, 1, "riscv64", InstructionSet::Riscv64),
];

impl Executable {
    /// Reads the header of a program.
    ///
    /// # Errors
    /// Returns why the file is no program that can be recorded.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let mut file = File::open(path).map_err(|error| error.to_string())?;
        let mut head = Vec::new();
        let read = file.by_ref().take(64).read_to_end(&mut head);
        read.map_err(|error| error.to_string())?;
        if head.starts_with(b"#!") {
            return Err("it is a script; name the program that it runs".to_owned());
        }
        if !head.starts_with(b"\x7fELF") || head.len() < 52 {
            return Err("it is no program of Linux (no ELF file)".to_owned());
        }
        let (class, order) = (head[4], head[5]);
        let number = |at: usize, bytes: usize, from: &[u8]| -> Option<u64> {
            let bytes = from.get(at..at + bytes)?.iter();
            let join = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
            Some(if order == 2 {
                bytes.fold(0, join)
            } else {
                bytes.rev().fold(0, join)
            })
        };
        let machine = number(18, 2, &head).unwrap_or(0) as u16;
        let kind = KINDS
            .iter()
            .find(|kind| (kind.0, kind.1, kind.2) == (machine, class, order));
        let Some(&(_, _, _, arch, set)) = kind else {
            let names = KINDS.map(|kind| kind.3).join(", ");
            return Err(format!(
                "it is for another processor (ELF machine {machine}); {names} can be recorded"
            ));
        };
        let wide = class == 2;
        let of_head = |at: [usize; 2], bytes: usize| {
            number(at[usize::from(wide)], bytes, &head).ok_or("its ELF header is damaged")
        };
        let at = of_head([28, 32], if wide { 8 } else { 4 })?;
        let (size, count) = (of_head([42, 54], 2)?, of_head([44, 56], 2)?);
        let mut segments = Vec::new();
        let read = file.seek(SeekFrom::Start(at));
        let read = read.and_then(|_| file.take(size * count).read_to_end(&mut segments));
        read.map_err(|error| error.to_string())?;
        /// `PT_INTERP`: the dynamic linker's name.
        const INTERPRETER: u64 = 3;
        let dynamic = segments
            .chunks(usize::try_from(size).unwrap_or(0).max(1))
            .any(|segment| number(0, 4, segment) == Some(INTERPRETER));
        /// `EF_ARM_ABI_FLOAT_SOFT`, a flag of Arm programs.
        const SOFT_FLOAT: u64 = 0x200;
        let flags = of_head([36, 48], 4)?;
        Ok(Self {
            set,
            arch,
            soft_float: arch == "arm" && flags & SOFT_FLOAT != 0,
            dynamic,
        })
    }

    fn emulator(self) -> String {
        format!("qemu-{}", self.arch)
    }

    /// Returns how programs of this instruction set are compiled on another one: the compiler, the Debian package that has it, and the
    /// folder of its libraries.
    fn compiler(self) -> (&'static str, &'static str, &'static Path) {
        let isa = match self.arch {
            "x86_64" => Isa::X86_64,
            "arm" if self.soft_float => {
                let libraries = Path::new("/usr/arm-linux-gnueabi");
                return ("arm-linux-gnueabi-gcc", "gcc-arm-linux-gnueabi", libraries);
            }
            "arm" => Isa::Arm,
            "aarch64" => Isa::Aarch64,
            "mipsel" => Isa::Mips1,
            "mips" => {
                let libraries = Path::new("/usr/mips-linux-gnu");
                return ("mips-linux-gnu-gcc", "gcc-mips-linux-gnu", libraries);
            }
            _ => Isa::Riscv64,
        };
        let (compiler, package) = isa.compiler();
        (compiler, package, isa.libraries())
    }

    pub(crate) fn is_native(self) -> bool {
        self.arch == std::env::consts::ARCH
    }
}

/// Which tasks are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tasks {
    /// Those of a program on the runtime, which reports them.
    Runtime,
    /// Those of OpenMP, which the adapter reports.
    OpenMp,
}

/// What is to be recorded.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    pub(crate) from: Option<u32>,
    pub(crate) to: Option<u32>,
    pub(crate) skip: Option<u64>,
    pub(crate) take: Option<u64>,
    /// Record tasks of the program, and not its threads.
    pub(crate) tasks: Option<Tasks>,
    /// Only count instructions and accesses to memory.
    pub(crate) count: bool,
}

/// What limits recordings, and parts of the recorder.
const LIMIT: &str = "the limit of a file's size (`ulimit -f`)";

/// A file without a name, which other processes open by its place among the descriptors of this one. Nothing of it is left, however this
/// process ends.
pub(crate) struct Unnamed(File);

impl Unnamed {
    /// Returns an empty file of the disk that has this folder.
    pub(crate) fn new(beside: &Path) -> io::Result<Self> {
        tempfile::tempfile_in(beside).map(Self)
    }

    /// Returns a file in memory.
    fn holding(name: &str, bytes: &[u8]) -> Outcome<Self> {
        let file = memfd_create(name, MemfdFlags::CLOEXEC).map(File::from);
        let file = file.map_err(|error| at_fault(name, error))?;
        io::Write::write_all(&mut &file, bytes).map_err(|error| match error.kind() {
            // Not this file is at fault, which the user does not know.
            io::ErrorKind::FileTooLarge => Failure::Input(format!(
                "{LIMIT} is too small for a part of the recorder, which has {} bytes in memory",
                bytes.len()
            )),
            _ => at_fault(name, error),
        })?;
        Ok(Self(file))
    }

    /// Returns a name by which processes of the same user open the file while `self` lives.
    pub(crate) fn path(&self) -> PathBuf {
        let (process, descriptor) = (std::process::id(), self.0.as_raw_fd());
        PathBuf::from(format!("/proc/{process}/fd/{descriptor}"))
    }
}

/// A program that runs under an emulator.
pub(crate) struct Emulated {
    child: Child,
    name: String,
    /// The folder on whose disk the spool is.
    beside: PathBuf,
    /// What the plugin writes: the spool, what it has to say, and the list of the runtime's marks if tasks are recorded.
    spool: Unnamed,
    status: Unnamed,
    marks: Option<Unnamed>,
    /// The plugin, which the emulator loads when it has started.
    _plugin: Unnamed,
}

/// How a recorded program ended, and what the plugin said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) synchronised: bool,
    /// It made tasks of OpenMP.
    pub(crate) openmp_tasks: bool,
    /// Threads that were not started by the thread library's functions are missing.
    pub(crate) unknown: bool,
    /// Accesses of the emulator that are parts of others, as of vectors.
    pub(crate) parts: u64,
    /// The piece was recorded, and the program was ended.
    pub(crate) taken: bool,
    /// The recording never began: its mark or number of instructions was not reached.
    pub(crate) unopened: bool,
    /// Instructions and accesses to memory, if they were counted.
    pub(crate) counted: Option<[u64; 2]>,
    /// A signal stopped the recording.
    pub(crate) interrupted: bool,
}

impl Emulated {
    /// Starts the program, the first of `words`, which lies at `path`, with the others as its arguments. The spool lies in `beside`.
    /// `environment`: further variables, `NAME=VALUE`. `quiet`: what the program prints goes to standard error.
    pub(crate) fn start(
        words: &[OsString],
        path: &Path,
        executable: Executable,
        piece: &Piece,
        beside: &Path,
        environment: &[String],
        quiet: bool,
    ) -> Outcome<Self> {
        let name = words[0].to_string_lossy().into_owned();
        let emulator =
            find(OsStr::new(&executable.emulator())).ok_or_else(|| missing(executable))?;
        let unnamed = || Unnamed::new(beside).map_err(|error| at_fault(beside.display(), error));
        let (spool, status) = (unnamed()?, unnamed()?);
        let marks = piece.tasks.map(|_| unnamed()).transpose()?;
        let plugin = Unnamed::holding("probe.so", &with_version(interface_version(&emulator)))?;
        let mut argument = OsString::from(plugin.path());
        let files = [
            ("spool", Some(&spool)),
            ("status", Some(&status)),
            ("tasks", marks.as_ref()),
        ];
        for (name, file) in files {
            if let Some(file) = file {
                argument.push(format!(",{name}="));
                argument.push(file.path());
            }
        }
        let numbers = [
            ("from", piece.from.map(u64::from)),
            ("to", piece.to.map(u64::from)),
            ("skip", piece.skip),
            ("take", piece.take),
        ];
        for (name, value) in numbers
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
        {
            argument.push(format!(",{name}={value}"));
        }
        if piece.count {
            argument.push(",count=on");
        }
        let mut command = Command::new(&emulator);
        command.arg("-plugin").arg(argument).args(["-seed", "1"]);
        if executable.is_native() {
            // Programs may be built for any level of the instruction set.
            command.args(["-cpu", "max"]);
        }
        command
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| is_kept(name)));
        for word in environment {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            command.env(name, value);
        }
        command.args(["-E", "LD_BIND_NOW=1"]);
        let variables: &[&str] = match piece.tasks {
            None => &[],
            Some(Tasks::Runtime) => &["TANADA_MARKS=1"],
            Some(Tasks::OpenMp) => &OPENMP_TASKS,
        };
        for variable in variables {
            command.args(["-E", variable]);
        }
        // Open until the program has started.
        let mut inherited = None;
        let library = match piece.tasks {
            None if executable.is_native() => Some(Unnamed::holding("guest.so", GUEST)?),
            None if executable.dynamic => {
                Some(Unnamed::holding("guest.so", &compile(executable)?)?)
            }
            // The runtime says what is to be known, and the program keeps its own allocator.
            None | Some(Tasks::Runtime) => None,
            Some(Tasks::OpenMp) => Some(Unnamed::holding("guest.so", ADAPTER)?),
        };
        if let Some(library) = library.filter(|_| executable.dynamic) {
            let opened = File::open(library.path()).map_err(|error| at_fault("guest.so", error))?;
            let held = fcntl_dupfd_cloexec(&opened, DESCRIPTOR)
                .and_then(|held| fcntl_setfd(&held, FdFlags::empty()).map(|()| held))
                .map_err(|error| at_fault("guest.so", error))?;
            command
                .arg("-E")
                .arg(format!("LD_PRELOAD=/proc/self/fd/{}", held.as_raw_fd()));
            inherited = Some(held);
        }
        let (.., libraries) = executable.compiler();
        if !executable.is_native()
            && libraries.is_dir()
            && std::env::var_os("QEMU_LD_PREFIX").is_none()
        {
            command.arg("-L").arg(libraries);
        }
        command.arg("--").arg(path).args(&words[1..]);
        if quiet {
            let err = io::stderr().as_fd().try_clone_to_owned();
            command.stdout(Stdio::from(err.map_err(|error| at_fault(&name, error))?));
        }
        let child = command
            .spawn()
            .map_err(|error| at_fault(emulator.display(), error))?;
        drop(inherited);
        ends_with_us(Some(&child));
        Ok(Self {
            child,
            name,
            beside: beside.to_owned(),
            spool,
            status,
            marks,
            _plugin: plugin,
        })
    }

    /// Waits for the program's end and shows the progress meanwhile.
    ///
    /// # Errors
    /// The program failed, or did something that cannot be recorded.
    pub(crate) fn wait(&mut self, cancel: &Cancel) -> Outcome<Ended> {
        /// The longest time between two looks at the program.
        const LONGEST: Duration = Duration::from_millis(50);
        let mut progress = Progress::new(None);
        progress.says("MB recorded, compressed");
        let mut time = Duration::from_millis(1);
        let status = loop {
            let ended = self
                .child
                .try_wait()
                .map_err(|error| at_fault("the emulator", error))?;
            if let Some(status) = ended {
                break status;
            }
            progress.at(self.spool.0.metadata().map_or(0, |file| file.len()) >> 20);
            thread::sleep(time);
            time = (2 * time).min(LONGEST);
        };
        drop(progress);
        ends_with_us(None);
        if cancel.is_cancelled() {
            end_child();
        }
        self.ended(status, cancel.is_cancelled())
    }

    /// Returns the file to which the plugin writes.
    pub(crate) fn spool(&self) -> PathBuf {
        self.spool.path()
    }

    /// Returns the list of the marks of tasks, if tasks are recorded.
    pub(crate) fn marks(&self) -> Option<PathBuf> {
        self.marks.as_ref().map(Unnamed::path)
    }

    /// Returns another file on the disk that has the spool.
    pub(crate) fn another(&self) -> io::Result<Unnamed> {
        Unnamed::new(&self.beside)
    }

    fn ended(&self, status: ExitStatus, interrupted: bool) -> Outcome<Ended> {
        let said = std::fs::read_to_string(self.status.path()).unwrap_or_default();
        let mut ended = Ended {
            interrupted,
            ..Ended::default()
        };
        let (mut loaded, mut done) = (false, false);
        let refuse = |why: &str| Err(at_fault(&self.name, format!("{why}; no trace was written")));
        for line in said.lines() {
            match line.split_once(' ').unwrap_or((line, "")) {
                ("synchronised", _) => ended.synchronised = true,
                ("tasks", _) => ended.openmp_tasks = true,
                ("unknown", _) => ended.unknown = true,
                ("parts", number) => ended.parts = number.parse().unwrap_or(0),
                ("taken", _) => ended.taken = true,
                ("unopened", _) => ended.unopened = true,
                ("loaded", _) => loaded = true,
                ("done", _) => done = true,
                ("counted", numbers) => {
                    let numbers = numbers.split(' ').flat_map(str::parse);
                    ended.counted = numbers.collect::<Vec<u64>>().try_into().ok();
                }
                ("fork", _) => return refuse("it starts another process, which is not recorded"),
                ("exec", _) => {
                    return refuse("it runs another program in its place; name that one");
                }
                ("exit", number) => {
                    return refuse(&format!(
                        "its thread {number} ended the process while other threads ran"
                    ));
                }
                ("threads", _) => return refuse("it has more than 65536 threads at once"),
                ("limit", _) => {
                    return refuse(&format!("{LIMIT} is too small for its recording"));
                }
                ("write", why) => {
                    return Err(at_fault(
                        self.beside.display(),
                        format!("the recording cannot be written: {why}"),
                    ));
                }
                _ => {}
            }
        }
        if interrupted {
            return Ok(ended);
        }
        if !loaded {
            return refuse(
                "the emulator does not load the recorder (see above): QEMU from 6 on with plugins is needed",
            );
        }
        if !status.success() {
            return refuse(&format!("it ended with {status}"));
        }
        if !done {
            return refuse(
                "the emulator ended without the recorder (is the program's loader there?)",
            );
        }
        Ok(ended)
    }
}

fn is_kept(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    KEPT.contains(&&*name) || KEPT_BEGINNINGS.iter().any(|begin| name.starts_with(begin))
}

/// Returns the version of the plugin interface that the emulator wants: 1 up to QEMU 8.1, 2 and later ones since then.
fn interface_version(emulator: &Path) -> u32 {
    let said = Command::new(emulator).arg("--version").output();
    let said = said.map_or(String::new(), |said| {
        String::from_utf8_lossy(&said.stdout).into_owned()
    });
    version_for(&said)
}

/// Returns the version of the plugin interface for what an emulator says of itself: `qemu-x86_64 version 7.2.22 (Debian ...)`.
fn version_for(said: &str) -> u32 {
    let version = said.split("version ").nth(1).unwrap_or_default();
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|word| word.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(7), numbers.next().unwrap_or(0));
    if version < (8, 2) { 1 } else { 2 }
}

/// Returns the plugin for this version of the interface.
fn with_version(version: u32) -> Vec<u8> {
    let mut plugin = PROBE.to_vec();
    let place = memchr::memmem::find(&plugin, VERSION_PLACE);
    let place = place.and_then(|at| plugin.get_mut(at.checked_sub(4)?..at));
    if let Some(place) = place {
        place.copy_from_slice(&version.to_le_bytes());
    }
    plugin
}

/// Compiles the library for a program of another instruction set, and returns it.
fn compile(executable: Executable) -> Outcome<Vec<u8>> {
    let (compiler, package, _) = executable.compiler();
    let Some(path) = find(OsStr::new(compiler)) else {
        return Err(Failure::Input(format!(
            "{compiler} is not installed (apt-get install {package}): a library for the recorded program is compiled with it"
        )));
    };
    let temporary = |error| at_fault("a temporary folder", error);
    let folder = tempfile::tempdir().map_err(temporary)?;
    for (name, text) in GUEST_SOURCES {
        std::fs::write(folder.path().join(name), text).map_err(temporary)?;
    }
    let compiled = Command::new(path)
        .args(["-O2", "-shared", "-fPIC", "-fno-builtin-malloc"])
        .args(["-o", "guest.so", "guest.c", "-ldl", "-lpthread"])
        .current_dir(folder.path())
        .output()
        .map_err(|error| at_fault(compiler, error))?;
    match compiled.status.success() {
        true => std::fs::read(folder.path().join("guest.so")).map_err(temporary),
        false => Err(at_fault(
            compiler,
            String::from_utf8_lossy(&compiled.stderr),
        )),
    }
}

fn missing(executable: Executable) -> Failure {
    Failure::Input(format!(
        "{} is not installed; it comes with the package qemu-user (apt-get install qemu-user; `--install` does it)",
        executable.emulator()
    ))
}

/// Installs the emulators if that is asked for and they are missing.
///
/// # Errors
/// This is no Debian, the user is not root, or the installation fails.
pub(crate) fn install(executable: Executable) -> Outcome {
    if find(OsStr::new(&executable.emulator())).is_some() {
        return Ok(());
    }
    let Some(apt) = find(OsStr::new("apt-get")).filter(|_| getuid().is_root()) else {
        return Err(Failure::Input(
            "`--install` needs apt-get and root; install the package qemu-user yourself".to_owned(),
        ));
    };
    note("tanada: apt-get install qemu-user");
    let status = Command::new(apt)
        .args(["install", "-y", "--no-install-recommends", "qemu-user"])
        .stdout(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(at_fault("apt-get install qemu-user", status)),
        Err(error) => Err(at_fault("apt-get", error)),
    }
}

/// Returns the path at which a shell would find the program.
pub(crate) fn find(program: &OsStr) -> Option<PathBuf> {
    let executable = |path: &Path| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    if program.to_string_lossy().contains('/') {
        let path = PathBuf::from(program);
        return executable(&path).then_some(path);
    }
    let path = std::env::var_os("PATH")?;
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(program));
    found.find(|path| executable(path))
}

/// Returns the files that a word of a command line may name: `FILE`, `-xFILE`, `--option=FILE`, `key@FILE`, `a,FILE`.
pub(crate) fn possible_files(word: &OsStr) -> impl Iterator<Item = &Path> {
    let bytes = word.as_bytes();
    let behind_a_letter = bytes.starts_with(b"-").then_some(2);
    let separated = bytes.iter().enumerate();
    let separated = separated.filter_map(|(at, byte)| b"=@,:".contains(byte).then_some(at + 1));
    let begins = [0].into_iter().chain(behind_a_letter).chain(separated);
    begins.filter_map(|begin| Some(Path::new(OsStr::from_bytes(bytes.get(begin..)?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_interface_follows_the_emulators() {
        for (said, version) in [
            (
                "qemu-x86_64 version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)",
                1,
            ),
            ("qemu-arm version 8.1.0", 1),
            ("qemu-arm version 8.2.0", 2),
            ("qemu-x86_64 version 10.0.2 (Debian 1:10.0.2+ds-2)", 2),
            ("", 1),
        ] {
            assert_eq!(version_for(said), version, "{said}");
        }
        let plugin = with_version(7);
        let place =
            memchr::memmem::find(&plugin, VERSION_PLACE).expect("the plugin names the place");
        assert_eq!(plugin[place - 4..place], 7u32.to_le_bytes());
        assert_eq!(memchr::memmem::find_iter(&plugin, VERSION_PLACE).count(), 1);
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = |bytes: &[u8]| {
            let path = folder.path().join("program");
            std::fs::write(&path, bytes).expect("written");
            Executable::read(&path)
        };
        let head = |machine: u8, class: u8, order: u8| {
            let mut head = vec![0; 64];
            head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, order]);
            head[if order == 1 { 18 } else { 19 }] = machine;
            head
        };
        assert!(of(b"#!/bin/sh\n").unwrap_err().contains("script"));
        assert!(of(b"").unwrap_err().contains("no program"));
        assert!(of(b"\x7fELF").unwrap_err().contains("no program"));
        assert!(
            of(&head(3, 1, 1))
                .unwrap_err()
                .contains("another processor")
        );
        let mut arm = head(40, 1, 1);
        assert_eq!(
            of(&arm).expect("a program").compiler().0,
            "arm-linux-gnueabihf-gcc"
        );
        arm[37] = 2;
        assert_eq!(
            of(&arm).expect("a program").compiler().0,
            "arm-linux-gnueabi-gcc"
        );
        let mips = of(&head(8, 1, 2)).expect("a program");
        assert_eq!((mips.arch, mips.dynamic), ("mips", false));
        // Its segments lie where the file has ended: no interpreter is found.
        assert!(!of(&head(62, 2, 1)).expect("a program").dynamic);
        let own =
            Executable::read(&std::env::current_exe().expect("a program")).expect("a program");
        assert!(own.dynamic && own.is_native());
    }
}
