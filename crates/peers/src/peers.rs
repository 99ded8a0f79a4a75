//! The one place that lists the peers: which takes part in which case, in which settings, and why one is absent.

use crate::Fallible;
use crate::native::Shared;
use crate::programs::{
    Chili, Dinero, Ffmpeg, ForkUnion, Program, Rayon, Sequential, Serial, Tanada, Valgrind, inline,
    spawned,
};
use std::path::PathBuf;

/// A way to run a peer; of several the best counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// What the table calls it.
    pub(crate) label: &'static str,
    /// Environment variables of the child process.
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

/// A program that is measured.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// What rows call it: `tanada/POLICY`, `floor/NAME`, or the name of a library or program.
    pub(crate) name: String,
    /// What it is, in one line.
    pub(crate) about: &'static str,
    pub(crate) cases: &'static [&'static str],
    /// Why it is not here, if so, and what would help.
    pub(crate) absent: Option<String>,
    settings: &'static [Setting],
    most_workers: u16,
    start: Start,
}

#[derive(Clone, Copy, Debug)]
enum Start {
    Tanada(&'static str),
    Sequential,
    Serial,
    Rayon,
    RayonCounters,
    Chili,
    ForkUnion,
    Ffmpeg,
    /// A tool of Valgrind's.
    Valgrind(&'static str),
    Dinero,
    /// The path of a shared object, or why there is none.
    Shared(Option<&'static str>, Option<&'static str>),
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

const GCC_SETTINGS: &[Setting] = &[setting("active", ACTIVE), setting("passive", PASSIVE)];
const LLVM_SETTINGS: &[Setting] = &[
    setting("blocktime infinite", BLOCKTIME),
    setting("blocktime 0", BLOCKTIME_0),
];

/// A peer that `build.rs` compiles, if it could.
macro_rules! native {
    ($key:literal) => {
        Start::Shared(
            option_env!(concat!("PEERS_NATIVE_", $key)),
            option_env!(concat!("PEERS_ABSENT_", $key)),
        )
    };
}

/// Where measuring everything a peer can do at its defaults is the point: what idle workers cost those who configure nothing.
const AT_DEFAULTS: &str = "idle";

const ANY: u16 = u16::MAX;

/// The peers of a table, each with: how many workers at most, name, cases, settings, how it is started, and what it is.
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

/// All peers but Tanada's policies.
fn others() -> Vec<Peer> {
    peers! {
        ONE "tanada/sequential" [h264] => Start::Sequential;
            "Tanada's decoder without tasks"
        ONE "serial" [stencil] => Start::Serial;
            "the plain loop"
        ANY "rayon" [wavefront stencil idle] => Start::Rayon;
            "rayon: joins, parallel loops, tasks spawned at a count of zero"
        ANY "floor/rayon-counters" [wavefront] => Start::RayonCounters;
            "by hand on rayon: the first released task runs at once"
        ANY "chili" [stencil idle] => Start::Chili;
            "chili: joins at a heartbeat"
        ANY "fork_union" [stencil idle] => Start::ForkUnion;
            "fork_union: parallel loops of spinning threads"
        ANY "onetbb" [wavefront build stencil idle] => native!("TBB");
            "oneTBB: flow graph, parallel loops"
        ANY "floor/tbb-counters" [wavefront] => native!("TBB_COUNTERS");
            "by hand on oneTBB: the first released task runs at once"
        ANY "taskflow" [wavefront build idle] => native!("TASKFLOW");
            "Taskflow: its graph"
        ANY "gcc-openmp" [wavefront build stencil idle] in GCC_SETTINGS => native!("OPENMP_GCC");
            "OpenMP of gcc: tasks with `depend`, parallel loops"
        ANY "gcc-openmp/passive" [idle] in &[setting("", PASSIVE)] => native!("OPENMP_GCC");
            "the same with OMP_WAIT_POLICY=passive"
        ANY "llvm-openmp" [wavefront build stencil idle] in LLVM_SETTINGS => native!("OPENMP_LLVM");
            "OpenMP of LLVM: the same source"
        ANY "llvm-openmp/blocktime-0" [idle] in &[setting("", BLOCKTIME_0)] => native!("OPENMP_LLVM");
            "the same with KMP_BLOCKTIME=0"
        ANY "floor/skewed" [stencil] => native!("SKEWED");
            "sweeps skewed by hand, in groups of eight"
        ONE "openh264" [h264] => native!("OPENH264");
            "Cisco's decoder, the system's library with its assembly"
        ANY "ffmpeg" [h264] => Start::Ffmpeg;
            "FFmpeg's decoder, the command"
        ONE "cachegrind" [sim] => Start::Valgrind("cachegrind");
            "Valgrind's cachegrind: one look-up a reference, while the program runs"
        ONE "lackey" [sim] => Start::Valgrind("lackey");
            "Valgrind's lackey: the references as text, which recordings of programs are made of"
        ONE "dinero" [sim] => Start::Dinero;
            "Dinero IV: the references of the same recording as text"
    }
}

/// Policies that the simulator is measured with: the time that a policy takes is no property of the simulator.
const SIMULATED: &[&str] = &["fcfs", "ts"];

/// All peers, Tanada's policies first.
pub(crate) fn all() -> Vec<Peer> {
    // `serial` is a reference that leaves all work to one worker: no program would choose it.
    let policies = tanada_runtime::policies::native().into_iter();
    let policies = policies.filter(|entry| entry.name != "serial");
    let ours = policies.map(|entry| Peer {
        name: format!("tanada/{}", entry.name),
        about: entry.summary,
        cases: match SIMULATED.contains(&entry.name) {
            true => &["wavefront", "build", "stencil", "h264", "idle", "sim"],
            false => &["wavefront", "build", "stencil", "h264", "idle"],
        },
        absent: None,
        settings: AS_IT_IS,
        most_workers: ANY,
        start: Start::Tanada(entry.name),
    });
    ours.chain(others()).collect()
}

/// The peer called `name`.
pub(crate) fn find(name: &str) -> Option<Peer> {
    all().into_iter().find(|peer| peer.name == name)
}

impl Start {
    fn absent(self) -> Option<String> {
        let (program, remedy) = match self {
            Start::Shared(None, why) => return Some(why.unwrap_or("not compiled").to_owned()),
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

/// The program of this name on the search path.
pub(crate) fn command(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

impl Peer {
    /// The settings that are tried in a case.
    pub(crate) fn settings(&self, case: &str) -> &'static [Setting] {
        match case == AT_DEFAULTS && self.settings.len() > 1 {
            true => AS_IT_IS,
            false => self.settings,
        }
    }

    /// The numbers of workers that it can be measured with, of those that are wanted; at least one.
    pub(crate) fn workers(&self, wanted: &[u16]) -> Vec<u16> {
        let mut can = wanted.to_vec();
        can.retain(|&workers| workers <= self.most_workers);
        if can.is_empty() {
            can.push(self.most_workers);
        }
        can
    }

    /// Whether it has graphs that are built once and run often, and graphs that are registered while they run.
    pub(crate) fn graphs(&self) -> (bool, bool) {
        let openmp = self.name.ends_with("openmp");
        (!openmp, openmp || matches!(self.start, Start::Tanada(_)))
    }

    /// Starts its workers, in the process that measures it.
    pub(crate) fn open(&self, workers: u16) -> Fallible<Box<dyn Program>> {
        Ok(match self.start {
            Start::Tanada(policy) => Box::new(Tanada::open(policy, workers)?),
            Start::Sequential => Box::new(Sequential),
            Start::Serial => Box::new(Serial),
            Start::Rayon => Box::new(Rayon::open(workers, spawned)?),
            Start::RayonCounters => Box::new(Rayon::open(workers, inline)?),
            Start::Chili => Box::new(Chili::open(workers)),
            Start::ForkUnion => Box::new(ForkUnion::open(workers)?),
            Start::Ffmpeg => Box::new(Ffmpeg::open(workers)?),
            Start::Valgrind(tool) => Box::new(Valgrind::open(tool)),
            Start::Dinero => Box::new(Dinero::open()?),
            Start::Shared(path, _) => Box::new(Shared::open(path.ok_or("it is absent")?, workers)?),
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
        for entry in tanada_runtime::policies::native()
            .iter()
            .filter(|entry| entry.name != "serial")
        {
            assert!(names.contains(&format!("tanada/{}", entry.name)));
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
    fn who_could_not_be_compiled_is_absent_with_a_reason() {
        assert_eq!(
            Start::Shared(None, Some("no compiler")).absent().as_deref(),
            Some("no compiler")
        );
        assert_eq!(Start::Shared(Some("peer.so"), None).absent(), None);
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
        assert!(openmp.settings("idle")[0].environment.is_empty());
        assert_eq!(openmp.settings("wavefront").len(), 2);
        let passive = find("gcc-openmp/passive").expect("it is listed");
        assert!(!passive.settings("idle")[0].environment.is_empty());
    }
}
