//! Compiles the programs of `programs/` with each compiler that is here, and runs them with and without the adapter.

use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Names a `libtanada_omp.so` to test instead of the one that is built from this workspace.
pub(crate) const LIBRARY: &str = "TANADA_OMP_LIBRARY";

/// How long a program may run. It needs milliseconds alone; spinning teams on a machine with other work need seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// A family of compilers.
struct Compilers {
    name: &'static str,
    /// Compilers of C, C++ and Fortran, with the Debian package of each; the last is missing if the family has none.
    of: [(&'static str, &'static str); 3],
    flags: &'static [&'static str],
}

const FAMILIES: [Compilers; 2] = [
    Compilers {
        name: "gcc",
        of: [("gcc", "gcc"), ("g++", "g++"), ("gfortran", "gfortran")],
        flags: &["-fopenmp"],
    },
    Compilers {
        name: "clang",
        // Debian's flang cannot compile OpenMP.
        of: [
            ("clang", "clang libomp-dev"),
            ("clang++", "clang libomp-dev"),
            ("", ""),
        ],
        flags: &["-fopenmp", "-fopenmp-version=51"],
    },
];

/// A compiled program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The source's name without its ending, and the family of compilers: `loops/gcc`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<String>,
}

/// Returns the folder of the sources.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// One call of a compiler.
struct Unit {
    source: PathBuf,
    output: PathBuf,
    compiler: &'static str,
    flags: Vec<&'static str>,
}

/// Returns all programs, compiled once for all tests of this process. A compiler that is not here is recorded as a skip.
pub(crate) fn programs() -> &'static [Program] {
    static PROGRAMS: OnceLock<Vec<Program>> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openmp-programs");
        std::fs::create_dir_all(&folder).expect("a folder for programs");
        let (units, programs) = plan(&folder);
        compile(&units);
        programs
    })
}

/// Returns what is to be compiled, and the programs that come of it.
fn plan(folder: &Path) -> (Vec<Unit>, Vec<Program>) {
    let mut names: Vec<PathBuf> = std::fs::read_dir(sources())
        .expect("the folder of programs")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    names.sort();
    let (mut units, mut programs) = (Vec::new(), Vec::new());
    for family in &FAMILIES {
        let mut here = family.of.map(|(compiler, package)| {
            let wanted = !compiler.is_empty();
            wanted
                && tanada_testing::program(&[compiler], package, "programs with OpenMP").is_some()
        });
        if here[0] && !links(family, folder) {
            tanada_testing::skip(format!(
                "{} does not link programs with OpenMP: apt-get install {}",
                family.name, family.of[0].1
            ));
            here = [false; 3];
        }
        for source in &names {
            let stem = source
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let ending = source.extension().unwrap_or_default().to_string_lossy();
            let Some(language) = ["c", "cpp", "f90"]
                .iter()
                .position(|known| *known == ending)
            else {
                continue;
            };
            if !here[language] {
                continue;
            }
            let compiler = family.of[language].0;
            let unit = |output: &Path, flags: &[&'static str]| Unit {
                source: source.clone(),
                output: output.to_owned(),
                compiler,
                flags: [family.flags, flags].concat(),
            };
            let path = folder.join(format!("{stem}-{}", family.name));
            if stem == "loaded" {
                units.push(unit(
                    &path.with_extension("1.so"),
                    &["-shared", "-fPIC", "-DFACTOR=1"],
                ));
                units.push(unit(
                    &path.with_extension("3.so"),
                    &["-shared", "-fPIC", "-DFACTOR=3"],
                ));
                continue;
            }
            let mut arguments = vec!["--quick".to_owned()];
            if stem == "load" {
                let library = |ending| {
                    folder
                        .join(format!("loaded-{}", family.name))
                        .with_extension(ending)
                };
                let libraries = [library("1.so"), library("3.so")];
                arguments = libraries
                    .map(|path| path.to_string_lossy().into_owned())
                    .into();
                let mut unit = unit(&path, &["-ldl"]);
                // The program itself has no OpenMP: only the libraries do.
                unit.flags.retain(|flag| !flag.starts_with("-fopenmp"));
                units.push(unit);
            } else {
                units.push(unit(&path, &["-lm"]));
            }
            programs.push(Program {
                name: format!("{stem}/{}", family.name),
                path,
                arguments,
            });
        }
    }
    (units, programs)
}

/// Returns whether the family's OpenMP runtime is here, which is a package of its own.
fn links(family: &Compilers, folder: &Path) -> bool {
    let source = folder.join(format!("links-{}.c", family.name));
    let text = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n";
    std::fs::write(&source, text).expect("a file in the folder of programs");
    let mut command = Command::new(family.of[0].0);
    command
        .args(family.flags)
        .arg(&source)
        .arg("-o")
        .arg(source.with_extension(""));
    command.output().is_ok_and(|output| output.status.success())
}

/// Compiles all units, as many at once as there are processors.
fn compile(units: &[Unit]) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
            let flags = unit.flags.iter().filter(|flag| !flag.starts_with("-l"));
            let libraries = unit.flags.iter().filter(|flag| flag.starts_with("-l"));
            let output = Command::new(unit.compiler)
                .args(["-O2", "-g1", "-w", "-D_GNU_SOURCE"])
                .args(flags)
                .arg(&unit.source)
                .arg("-o")
                .arg(&unit.output)
                .args(libraries)
                // Fortran writes files of its modules where it stands.
                .current_dir(unit.output.parent().expect("a folder"))
                .output()
                .expect("the compiler starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success(),
                "{} {}: {said}",
                unit.compiler,
                unit.source.display()
            );
        }
    };
    let number = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..number {
            scope.spawn(work);
        }
    });
}

/// Returns the adapter: the file that [`LIBRARY`] names, or the one that Cargo builds from this workspace.
pub(crate) fn adapter() -> &'static Path {
    static ADAPTER: OnceLock<PathBuf> = OnceLock::new();
    ADAPTER.get_or_init(|| {
        if let Some(path) = std::env::var_os(LIBRARY) {
            return path.into();
        }
        // This program lies in `target/PROFILE/deps`; the folder of the profile `dev` is `debug`.
        let program = std::env::current_exe().expect("the path of this program");
        let folder = program
            .parent()
            .and_then(Path::parent)
            .expect("a folder")
            .to_owned();
        let profile = match folder.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(name) => name,
        };
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "build",
            "--quiet",
            "-p",
            "tanada-openmp",
            "--profile",
            profile,
        ]);
        let status = cargo
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .expect("cargo starts");
        assert!(status.success(), "the adapter cannot be built");
        folder.join("libtanada_omp.so")
    })
}

/// What came of a run.
pub(crate) struct Run {
    /// `None` if it was stopped because it took too long.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) output: String,
}

impl Run {
    /// Returns whether the program ended in time with code 0.
    pub(crate) fn good(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Returns what is wrong, in one line, with the first things that the program said.
    pub(crate) fn verdict(&self) -> String {
        let how = match self.status {
            None => format!("did not end within {LIMIT:?}"),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit code {code}"),
                (None, signal) => format!("signal {}", signal.unwrap_or(0)),
            },
        };
        let said: Vec<&str> = self.output.lines().take(3).collect();
        format!("{how}: {}", said.join(" / "))
    }
}

/// Runs `program` with more arguments and these variables.
pub(crate) fn run(program: &Program, more: &[&str], environment: &[(String, String)]) -> Run {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let output = program.path.with_extension(format!("output-{number}"));
    let file = File::create(&output).expect("a file for output");
    let mut command = Command::new(&program.path);
    // Members of a team that spin for one that has no processor cost seconds; tests run beside each other.
    command
        .env("OMP_WAIT_POLICY", "passive")
        .env("OMP_NUM_THREADS", "2");
    for name in [
        "TANADA_OMP",
        "TANADA_OMP_TASKS",
        "OMP_CANCELLATION",
        "LD_PRELOAD",
    ] {
        command.env_remove(name);
    }
    command.args(&program.arguments).args(more);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null());
    command
        .stdout(file.try_clone().expect("the same file"))
        .stderr(file);
    let mut child = command
        .process_group(0)
        .spawn()
        .expect("the program starts");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            break Some(status);
        }
        if start.elapsed() > LIMIT {
            // The group, since some programs have children.
            _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = std::fs::read(&output).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    _ = std::fs::remove_file(&output);
    Run {
        status,
        output: text.expect("the program's output"),
    }
}
