//! The one list of the peers: which peer takes part in which case, in which settings, and why a peer is absent.

use crate::Fallible;
use crate::cases::Case;
use crate::native::Shared;
use crate::programs::forks::{KERNELS, Kernel, NATIVE_KERNELS};
use crate::programs::light;
use crate::programs::lines::{ICEORYX, Kind};
use crate::programs::{
    Chili, CholeskyCounters, Dinero, FLATS, Ffmpeg, Flat, ForkUnion, Forte, GROWTHS, Growth, Here,
    Program, Published, Rayon, Sequential, Serial, Tanada, Threads, Tiles, Valgrind, ffmpeg,
    inline, spawned,
};
use std::path::PathBuf;
use tanada_runtime::{deliveries, policies};

/// A way to run a peer. If a peer has several, the best counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// The name in the table.
    pub(crate) label: &'static str,
    /// Environment variables of the child process.
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

/// A program that is measured.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// The name in rows: `tanada/POLICY`, `floor/NAME`, or the name of a library or program.
    pub(crate) name: String,
    /// A description in one line.
    pub(crate) about: &'static str,
    pub(crate) cases: &'static [&'static str],
    /// Why the peer cannot be measured, and what would help; `None`: it is installed.
    pub(crate) absent: Option<String>,
    settings: &'static [Setting],
    most_workers: u16,
    start: Start,
}

#[derive(Clone, Copy, Debug)]
enum Start {
    Tanada(&'static str),
    /// Tanada, with the thread that measures as a worker.
    Here,
    Sequential,
    Serial,
    Rayon,
    /// rayon, with the thread that measures as a worker.
    RayonHere,
    RayonCounters,
    CholeskyCounters,
    Chili,
    Forte,
    ForkUnion,
    Ffmpeg,
    /// A tool of Valgrind's.
    Valgrind(&'static str),
    Dinero,
    Threads,
    /// So many instructions in so many seconds on so many host cores, as a publication states.
    Published(u64, u64, u64),
    /// Messages from one thread to another; `None`: the machine's jitter alone.
    Line(Option<Kind>),
    /// Lightweight threads.
    Light(light::Kind),
    /// The path of a shared object, or why there is none; and what it runs.
    Shared(Option<&'static str>, Option<&'static str>, Native),
}

/// What the shared object of a native peer is measured on.
#[derive(Clone, Copy, Debug)]
enum Native {
    /// All functions that it has, the stencil sweep by sweep.
    Whole,
    /// The stencil as a graph of tiles over time steps.
    Tiles,
}

const fn setting(
    label: &'static str,
    environment: &'static [(&'static str, &'static str)],
) -> Setting {
    Setting { label, environment }
}

const AS_IT_IS: &[Setting] = &[setting("", &[])];

const ACTIVE: &[(&str, &str)] = &[("OMP_WAIT_POLICY", "active"), ("OMP_PROC_BIND", "true")];
const PASSIVE: &[(&str, &str)] = &[("OMP_WAIT_POLICY", "passive"), ("OMP_PROC_BIND", "true")];
const BLOCKTIME: &[(&str, &str)] = &[("KMP_BLOCKTIME", "infinite"), ("OMP_PROC_BIND", "true")];
const BLOCKTIME_0: &[(&str, &str)] = &[("KMP_BLOCKTIME", "0"), ("OMP_PROC_BIND", "true")];

/// Numbers of FFmpeg's threads. FFmpeg itself advises against more than 16.
macro_rules! ffmpeg_settings {
    ($($threads:literal)*) => {
        &[$(setting(concat!("-threads ", $threads), &[(ffmpeg::THREADS, $threads)])),*]
    };
}
const FFMPEG_SETTINGS: &[Setting] =
    ffmpeg_settings!("1" "2" "3" "4" "5" "6" "7" "8" "9" "10" "11" "12" "13" "14" "15" "16");

const RUN_N: &[(&str, &str)] = &[("PEERS_RUN_N", "1")];

const STARPU_SETTINGS: &[Setting] = &[
    setting("lws", &[("STARPU_SCHED", "lws")]),
    setting("eager", &[("STARPU_SCHED", "eager")]),
    setting("prio", &[("STARPU_SCHED", "prio")]),
];

const TASKLOOP: &[(&str, &str)] = &[("PEERS_TASKLOOP", "1"), ("OMP_PROC_BIND", "true")];

const GCC_SETTINGS: &[Setting] = &[setting("active", ACTIVE), setting("passive", PASSIVE)];
const LLVM_SETTINGS: &[Setting] = &[
    setting("blocktime infinite", BLOCKTIME),
    setting("blocktime 0", BLOCKTIME_0),
];

/// A peer that `build.rs` compiles, if the machine has what it needs.
macro_rules! native {
    ($key:literal) => {
        native!($key, Native::Whole)
    };
    ($key:literal, $runs:expr) => {
        Start::Shared(
            option_env!(concat!("PEERS_NATIVE_", $key)),
            option_env!(concat!("PEERS_ABSENT_", $key)),
            $runs,
        )
    };
}

/// The cases in which peers with several settings run at their defaults: what idle workers cost a user who configures nothing.
const AT_DEFAULTS: &[&str] = &["idle", "regions"];

const ANY: u16 = u16::MAX;

/// Lists peers, each with: most workers, name, cases, settings, start, and description.
macro_rules! peers {
    (@settings) => { AS_IT_IS };
    (@settings $settings:expr) => { $settings };
    ($($most:ident $name:literal [$($case:ident)*] $(in $settings:expr)? => $start:expr; $about:literal)*) => {
        vec![$(Peer {
            name: $name.to_owned(),
            about: $about,
            cases: &[$(stringify!($case)),*],
            absent: $start.absent(),
            settings: const { peers!(@settings $($settings)?) },
            most_workers: $most,
            start: $start,
        }),*]
    };
}

const ONE: u16 = 1;

/// Returns all peers but Tanada's policies.
fn others() -> Vec<Peer> {
    peers! {
        ONE "tanada/sequential" [h264] => Start::Sequential;
            "Tanada's decoder without tasks"
        ANY "tanada/here" [flat cholesky forks idle regions] => Start::Here;
            "forks and loops in a pool of which the thread that measures is a worker"
        ONE "serial" [stencil cholesky forks] => Start::Serial;
            "the plain loop"
        ANY "rayon" [wavefront flat dynamic cholesky forks stencil idle regions] => Start::Rayon;
            "rayon: joins, parallel loops, tasks spawned at a count of zero"
        ANY "rayon/here" [forks idle regions] => Start::RayonHere;
            "rayon: the thread that measures is a worker (`use_current_thread`)"
        ANY "floor/rayon-counters" [wavefront] => Start::RayonCounters;
            "by hand on rayon: the first released task runs at once"
        ANY "rayon/counters" [cholesky] => Start::CholeskyCounters;
            "rayon: tasks spawned at a count of zero"
        ANY "chili" [flat forks stencil idle regions] => Start::Chili;
            "chili: joins at a heartbeat"
        ANY "forte" [forks] => Start::Forte;
            "forte: joins at a heartbeat"
        ANY "fork_union" [flat stencil idle regions] => Start::ForkUnion;
            "fork_union: parallel loops of spinning threads"
        ANY "onetbb" [wavefront build flat dynamic cholesky forks stencil idle regions] => native!("TBB");
            "oneTBB: flow graph, parallel loops"
        ANY "onetbb/tiles" [stencil] => native!("TBB", Native::Tiles);
            "oneTBB: a flow graph of Tanada's tiles over time steps"
        ANY "floor/tbb-counters" [wavefront] => native!("TBB_COUNTERS");
            "by hand on oneTBB: the first released task runs at once"
        ANY "taskflow" [wavefront build flat cholesky idle regions] => native!("TASKFLOW");
            "Taskflow: its graph, each frame waited for"
        ANY "taskflow/run-n" [wavefront] in &[setting("", RUN_N)] => native!("TASKFLOW");
            "Taskflow: its graph, all frames at once by `run_n`"
        ANY "taskflow/tiles" [stencil] => native!("TASKFLOW", Native::Tiles);
            "Taskflow: a graph of Tanada's tiles over time steps"
        ANY "gcc-openmp" [wavefront build flat dynamic cholesky forks stencil idle regions] in GCC_SETTINGS => native!("OPENMP_GCC");
            "OpenMP of gcc: tasks with `depend`, parallel loops"
        ANY "gcc-openmp/doacross" [wavefront] in GCC_SETTINGS => native!("DOACROSS_GCC");
            "OpenMP of gcc: `ordered(2)`, `depend(sink)`, `depend(source)`; with edges=2 the loop's order for left"
        ANY "gcc-openmp/taskloop" [flat] in &[setting("", TASKLOOP)] => native!("OPENMP_GCC");
            "OpenMP of gcc: `taskloop`"
        ANY "gcc-openmp/passive" [idle regions] in &[setting("", PASSIVE)] => native!("OPENMP_GCC");
            "the same with OMP_WAIT_POLICY=passive"
        ANY "llvm-openmp" [wavefront build flat dynamic cholesky forks stencil idle regions] in LLVM_SETTINGS => native!("OPENMP_LLVM");
            "OpenMP of LLVM: the same source"
        ANY "llvm-openmp/doacross" [wavefront] in LLVM_SETTINGS => native!("DOACROSS_LLVM");
            "OpenMP of LLVM: the same source"
        ANY "llvm-openmp/taskloop" [flat] in &[setting("", TASKLOOP)] => native!("OPENMP_LLVM");
            "OpenMP of LLVM: the same source"
        ANY "llvm-openmp/blocktime-0" [idle regions] in &[setting("", BLOCKTIME_0)] => native!("OPENMP_LLVM");
            "the same with KMP_BLOCKTIME=0"
        ANY "starpu" [cholesky] in STARPU_SETTINGS => native!("STARPU");
            "StarPU: tasks that name their data"
        ANY "floor/row-progress" [wavefront] => native!("ROW_PROGRESS");
            "by hand: a count of finished tasks for each row, a store a task, spinning; it has no edges, so both graphs are one"
        ANY "floor/skewed" [stencil] => native!("SKEWED");
            "sweeps skewed by hand, in groups of eight"
        ONE "openh264" [h264] => native!("OPENH264");
            "Cisco's decoder, the system's library with its assembly"
        ANY "ffmpeg" [h264] in FFMPEG_SETTINGS => Start::Ffmpeg;
            "FFmpeg's decoder, the command, with 1 to workers + 1 threads on as many hardware threads as workers"
        ONE "cachegrind" [sim] => Start::Valgrind("cachegrind");
            "Valgrind's cachegrind: one look-up a reference, while the program runs"
        ONE "lackey" [sim] => Start::Valgrind("lackey");
            "Valgrind's lackey: the references as text"
        ONE "dinero" [sim] => Start::Dinero;
            "Dinero IV: the references of the same recording as text"
        ONE "tanada/threads" [smt] => Start::Threads;
            "Tanada's simulator of thread traces, governor fifo"
        ONE "published/gem5-o3" [smt] => Start::Published(100_000, 1, 1);
            "gem5, one out-of-order core: typically 0.1 M (Sandberg, Hagersten, Black-Schaffer, IISWC 2015, section I)"
        ONE "published/gem5" [smt] => Start::Published(200_000, 1, 1);
            "gem5: about 0.2 M (Sanchez and Kozyrakis, ISCA 2013, section 1)"
        ONE "published/champsim" [smt] => Start::Published(320_000_000, 6_327, 1);
            "ChampSim, a user's log: 4 cores, 80 M each, from 0:22:57 to 2:08:24 (github.com/ChampSim/ChampSim issue 176)"
        ONE "published/sniper" [smt] => Start::Published(2_000_000, 1, 8);
            "Sniper, 16 cores: up to 2.0 M on 8 host cores, here for one (Carlson, Heirman, Eeckhout, SC 2011, abstract)"
        ONE "published/zsim-ooo" [smt] => Start::Published(300_000_000, 1, 16);
            "zsim, 1024 out-of-order cores: up to 300 M on 16 host cores, here for one (ISCA 2013, abstract)"
        ANY "tanada/shared" [messages] => Start::Line(Some(Kind::Tanada("immediate", true)));
            "every message is told at once, in memory that processes share"
        ANY "crossbeam-channel" [messages] => Start::Line(Some(Kind::Crossbeam));
            "crossbeam's bounded channel"
        ANY "rtrb" [messages] => Start::Line(Some(Kind::Rtrb));
            "rtrb: a ring, whose receiver never sleeps"
        ANY "rtrb/eventfd" [messages] => Start::Line(Some(Kind::RtrbEventfd));
            "rtrb, and an eventfd that is written for each message"
        ANY "pipe" [messages] => Start::Line(Some(Kind::Pipe));
            "a pipe, read in blocks of 4 KiB"
        ANY "iceoryx2" [messages] => Start::Line(Some(Kind::Iceoryx));
            "iceoryx2: publish and subscribe in shared memory, and its events for receivers that sleep"
        ANY "floor/timer" [messages] => Start::Line(None);
            "a thread that sleeps: the machine's jitter"
        ANY "tanada/tied" [threads] => Start::Light(light::Kind::Tanada(false));
            "threads that stay on the worker on which they have started"
        ANY "tanada/untied" [threads] => Start::Light(light::Kind::Tanada(true));
            "threads that other workers may take whenever they wait"
        ANY "may" [threads] => Start::Light(light::Kind::May);
            "may: stackful coroutines, its channels for one sender"
        ONE "floor/corosensei" [threads] => Start::Light(light::Kind::Corosensei);
            "coroutines without a scheduler, resumed by hand"
        ANY "tokio" [threads] => Start::Light(light::Kind::Tokio(false));
            "tokio: tasks, which have no stacks, on its threads that steal"
        ONE "tokio/current-thread" [threads] => Start::Light(light::Kind::Tokio(true));
            "tokio: tasks on its runtime of one thread"
        ANY "os-threads" [threads] => Start::Light(light::Kind::Os);
            "threads of the operating system, on as many hardware threads as workers"
        ANY "goroutines" [threads] => Start::Light(light::Kind::Go(option_env!("PEERS_NATIVE_GO")));
            "Go: goroutines and its channels, GOMAXPROCS as many as workers"
        ONE "published/zsim-simple" [smt] => Start::Published(1_500_000_000, 1, 16);
            "zsim, 1024 simple cores: up to 1,500 M on 16 host cores, here for one (ISCA 2013, abstract)"
    }
}

/// The cases of a policy. The first two are for those that stand for all.
const SIMULATED: &[&str] = &[
    "sim",
    "forks",
    "wavefront",
    "build",
    "flat",
    "dynamic",
    "cholesky",
    "stencil",
    "h264",
    "idle",
    "regions",
];

/// Returns all peers, Tanada's policies first.
pub(crate) fn all() -> Vec<Peer> {
    let mut policies = policies::native();
    // A policy that leaves workers idle is a reference for tests.
    policies.retain(|entry| entry.greedy);
    // The time that a policy takes is no property of the simulator, and no policy sees forks: one policy without groups and one with
    // groups stand for all.
    let first = |groups| policies.iter().find(|entry| entry.groups == groups);
    let simulated = [first(false), first(true)];
    let ours = policies.iter().map(|entry| Peer {
        name: format!("tanada/{}", entry.name),
        about: entry.summary,
        cases: match simulated.contains(&Some(entry)) {
            true => SIMULATED,
            false => &SIMULATED[2..],
        },
        absent: None,
        settings: AS_IT_IS,
        most_workers: ANY,
        start: Start::Tanada(entry.name),
    });
    let lines = deliveries::all().iter().map(|entry| Peer {
        name: format!("tanada/{}", entry.name),
        about: entry.summary,
        cases: &["messages"],
        absent: None,
        settings: AS_IT_IS,
        most_workers: ANY,
        start: Start::Line(Some(Kind::Tanada(entry.name, false))),
    });
    ours.chain(lines).chain(others()).collect()
}

/// Returns the peer called `name`.
pub(crate) fn find(name: &str) -> Option<Peer> {
    all().into_iter().find(|peer| peer.name == name)
}

impl Start {
    /// Returns why the peer cannot be started; `None`: it can.
    fn absent(self) -> Option<String> {
        let (program, remedy) = match self {
            Start::Shared(None, why, _) => return Some(why.unwrap_or("not compiled").to_owned()),
            Start::Light(light::Kind::Go(None)) => {
                return Some(
                    option_env!("PEERS_ABSENT_GO")
                        .unwrap_or("not compiled")
                        .to_owned(),
                );
            }
            Start::Line(Some(Kind::Iceoryx)) if !ICEORYX => {
                let why = "built without it (cargo run --release -p peers --features iceoryx2)";
                return Some(why.to_owned());
            }
            Start::Forte if !Forte::IS_BUILT => {
                let why = "built without it (cargo run --release -p peers --features forte)";
                return Some(why.to_owned());
            }
            Start::Ffmpeg => ("ffmpeg", "Debian: apt install ffmpeg"),
            Start::Valgrind(_) => ("valgrind", "Debian: apt install valgrind"),
            Start::Dinero => (
                "dineroIV",
                "no distribution has it; its authors give the source away",
            ),
            _ => return None,
        };
        let here = command(program).is_some();
        (!here).then(|| format!("not installed ({remedy})"))
    }
}

/// Returns the program of this name on the search path.
pub(crate) fn command(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

impl Peer {
    /// Returns the settings that are tried in a case with that number of workers.
    pub(crate) fn settings(&self, case: &str, workers: u16) -> &'static [Setting] {
        match self.start {
            Start::Ffmpeg => {
                let most = usize::from(workers) + 1;
                &self.settings[..most.min(self.settings.len())]
            }
            _ if AT_DEFAULTS.contains(&case) && self.settings.len() > 1 => AS_IT_IS,
            _ => self.settings,
        }
    }

    /// Returns those of the wanted numbers of workers that the peer can be measured with; if there is none, its greatest number.
    pub(crate) fn workers(&self, wanted: &[u16]) -> Vec<u16> {
        let mut can = wanted.to_vec();
        can.retain(|&workers| workers <= self.most_workers);
        if can.is_empty() {
            can.push(self.most_workers);
        }
        can
    }

    /// Returns whether the peer has graphs that are built once and run often, and whether it has graphs that are registered while they run.
    pub(crate) fn graphs(&self) -> (bool, bool) {
        let openmp = self.name.ends_with("openmp");
        (!openmp, openmp || matches!(self.start, Start::Tanada(_)))
    }

    /// Returns the ways in which the peer makes independent tasks.
    pub(crate) fn flats(&self) -> &'static [Flat] {
        let loops = self.name.ends_with("/taskloop") || self.name == "taskflow";
        match self.start {
            Start::Here | Start::Chili | Start::ForkUnion => &FLATS[..1],
            _ if loops => &FLATS[..1],
            _ => &FLATS,
        }
    }

    /// Returns the way in which the peer makes the tasks of the Cholesky factorisation, if it has only one.
    pub(crate) fn cholesky_way(&self) -> Option<Flat> {
        match self.start {
            Start::Tanada(_) => None,
            Start::Shared(..) if self.name.ends_with("openmp") || self.name == "starpu" => {
                Some(Flat::Scope)
            }
            _ => Some(Flat::Template),
        }
    }

    /// Returns the shapes in which the peer's tasks are registered while others run: native peers begin in a region of their own. LLVM's
    /// runtime with one thread runs a task inside of its registration, so a chain would need a stack as long as it is.
    pub(crate) fn growths(&self) -> &'static [Growth] {
        match self.start {
            Start::Shared(..) if self.name == "llvm-openmp" => &GROWTHS[1..3],
            Start::Shared(..) => &GROWTHS[..3],
            _ => &GROWTHS,
        }
    }

    /// Returns the recursions that the peer runs: native peers those that need no more than numbers.
    pub(crate) fn kernels(&self) -> &'static [Kernel] {
        match self.start {
            Start::Shared(..) => &KERNELS[..NATIVE_KERNELS],
            _ => &KERNELS,
        }
    }

    /// Returns how the peer sends messages; `None` if it does not.
    pub(crate) fn line(&self) -> Option<Kind> {
        match self.start {
            Start::Line(kind) => kind,
            _ => None,
        }
    }

    /// Returns whose lightweight threads the peer has; `None` if it has none.
    pub(crate) fn light(&self) -> Option<light::Kind> {
        match self.start {
            Start::Light(kind) => Some(kind),
            _ => None,
        }
    }

    /// Starts the peer's workers in this process and returns its program for `case`.
    ///
    /// # Errors
    /// If the peer cannot be started.
    pub(crate) fn open(&self, case: &'static Case, workers: u16) -> Fallible<Box<dyn Program>> {
        Ok(match self.start {
            Start::Tanada(policy) => Box::new(Tanada::open(policy, case, workers)?),
            Start::Here => Box::new(Here::open(workers)?),
            Start::Sequential => Box::new(Sequential(case)),
            Start::Serial => Box::new(Serial),
            Start::Rayon => Box::new(Rayon::open(workers, spawned)?),
            Start::RayonHere => Box::new(Rayon::here(workers)?),
            Start::RayonCounters => Box::new(Rayon::open(workers, inline)?),
            Start::CholeskyCounters => Box::new(CholeskyCounters::open(workers)?),
            Start::Chili => Box::new(Chili::open(workers)),
            Start::Forte => Forte::open(workers)?,
            Start::ForkUnion => Box::new(ForkUnion::open(workers)?),
            Start::Ffmpeg => Box::new(Ffmpeg::open(workers)?),
            Start::Valgrind(tool) => Box::new(Valgrind::open(tool)),
            Start::Dinero => Box::new(Dinero::open(case)?),
            Start::Threads => Box::new(Threads::open()?),
            Start::Line(_) | Start::Light(_) => return Err("it runs no tasks".into()),
            Start::Published(instructions, seconds, cores) => Box::new(Published {
                instructions,
                seconds,
                cores,
            }),
            Start::Shared(path, _, runs) => {
                let path = path.ok_or("it is absent")?;
                match runs {
                    Native::Whole => Box::new(Shared::open(path, workers)?),
                    Native::Tiles => Box::new(Tiles::open(path, workers)?),
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_policy_is_there() {
        let names: Vec<String> = all().into_iter().map(|peer| peer.name).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name} is there twice");
        }
        for entry in policies::native() {
            let name = format!("tanada/{}", entry.name);
            assert_eq!(names.contains(&name), entry.greedy, "{name}");
        }
    }

    #[test]
    fn every_case_of_a_peer_is_registered() {
        for peer in all() {
            for case in peer.cases {
                assert!(crate::cases::find(case).is_some(), "{}: {case}", peer.name);
            }
        }
    }

    #[test]
    fn a_peer_that_could_not_be_compiled_is_absent_with_a_reason() {
        assert_eq!(
            Start::Shared(None, Some("no compiler"), Native::Whole)
                .absent()
                .as_deref(),
            Some("no compiler")
        );
        assert_eq!(
            Start::Shared(Some("peer.so"), None, Native::Whole).absent(),
            None
        );
    }

    #[test]
    fn workers_are_those_that_a_peer_can_use() {
        let serial = find("serial").expect("it is listed");
        assert_eq!(
            (serial.workers(&[1, 2]), serial.workers(&[2, 4])),
            (vec![1], vec![1])
        );
        assert_eq!(
            find("rayon").expect("it is listed").workers(&[1, 2]),
            [1, 2]
        );
    }

    #[test]
    fn idle_is_measured_at_defaults() {
        let openmp = find("gcc-openmp").expect("it is listed");
        assert!(openmp.settings("idle", 2)[0].environment.is_empty());
        assert_eq!(openmp.settings("wavefront", 2).len(), 2);
        let passive = find("gcc-openmp/passive").expect("it is listed");
        assert!(!passive.settings("idle", 2)[0].environment.is_empty());
    }

    #[test]
    fn ffmpeg_may_have_a_thread_more_than_workers() {
        let ffmpeg = find("ffmpeg").expect("it is listed");
        let labels =
            |workers| Vec::from_iter(ffmpeg.settings("h264", workers).iter().map(|s| s.label));
        assert_eq!(labels(2), ["-threads 1", "-threads 2", "-threads 3"]);
        assert_eq!((labels(1).len(), labels(64).len()), (2, 16));
    }
}
