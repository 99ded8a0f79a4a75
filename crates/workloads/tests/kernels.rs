//! The kernels in C: the same digest for any number of threads, for several processors, and from the workload of the same name.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tanada_runtime::{Cancel, Pool};
use tanada_workloads::kernels::{self, Digest, Isa};
use tanada_workloads::workload::{Output as Words, Way};
use tanada_workloads::{Purpose, Site, find, values_of};

/// Sizes for tests: milliseconds, but more than a piece for each thread. `-n` is `--size` of the workload of the same name, `--seed` is
/// `--input-seed`, and other options have the same name.
const SMALL: &[(&str, &[&str])] = &[
    ("lu", &["-n", "96"]),
    ("fft", &["-n", "1024"]),
    ("radix", &["-n", "5000"]),
    ("ocean", &["-n", "32"]),
    ("barnes", &["-n", "300"]),
    ("hash", &["-n", "2000", "--rounds", "3", "--keys", "1024"]),
];

/// Returns whether the compiler for `isa` is there, or reports that the test cannot run.
fn compiles(isa: Isa) -> bool {
    let (compiler, package) = isa.compiler();
    tanada_testing::program(&[compiler], package, format!("kernels for {isa}")).is_some()
}

/// Returns the folder with all kernels for this processor, compiled once, or reports that the test cannot run.
fn here() -> Option<(Isa, &'static Path)> {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let Some(isa) = Isa::host() else {
        tanada_testing::skip("kernels do not know this processor");
        return None;
    };
    let compile = || {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
        std::fs::create_dir_all(&folder).expect("cargo's folder for tests can be written to");
        for name in kernels::names() {
            kernels::build(name, isa, &folder).expect("it can be compiled");
        }
        folder
    };
    compiles(isa).then(|| (isa, &**FOLDER.get_or_init(compile)))
}

fn digest(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let line = text.lines().find_map(|line| line.strip_prefix("digest "));
    line.expect("a kernel prints its digest").to_owned()
}

fn run(program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).output().expect("it starts")
}

#[test]
fn digests_do_not_depend_on_threads_and_checks_pass() {
    let Some((isa, folder)) = here() else {
        return;
    };
    let names: Vec<&str> = SMALL.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, kernels::names());
    for (name, options) in SMALL {
        let program = folder.join(format!("{name}-{isa}"));
        let mut seen = Vec::new();
        for threads in ["1", "2", "8"] {
            let arguments = [options, &["--check", "-p", threads][..]].concat();
            let output = run(&program, &arguments);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.contains("check passed"), "{name}: {text}");
            seen.push(digest(&output));
        }
        let other = [options, &["--seed", "7"][..]].concat();
        assert!(seen.iter().all(|one| *one == seen[0]), "{name}: {seen:?}");
        assert_ne!(digest(&run(&program, &other)), seen[0], "{name}");
        if *name == "lu" {
            let arguments = [options, &["--layout", "1", "--block", "32"][..]].concat();
            assert_eq!(digest(&run(&program, &arguments)), seen[0]);
        }
    }
}

#[test]
fn wrong_usage_is_answered() {
    let Some((isa, folder)) = here() else {
        return;
    };
    for (name, options) in SMALL {
        let program = folder.join(format!("{name}-{isa}"));
        let help = run(&program, &["--help"]);
        assert!(help.status.success(), "{name}");
        assert!(String::from_utf8_lossy(&help.stdout).contains("--seed"));
        let wrong: &[&[&str]] = &[
            &["-p"],
            &["-p", "0"],
            &["-p", "1025"],
            &["-n", "12x"],
            &["-n", ""],
            &["-n", "99999999999999999999"],
            &["--nothing", "1"],
            &["word"],
        ];
        for arguments in wrong {
            let output = run(&program, &[options, *arguments].concat());
            assert_eq!(output.status.code(), Some(2), "{name} {arguments:?}");
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                message.contains("--help"),
                "{name} {arguments:?}: {message}"
            );
            assert!(output.stdout.is_empty(), "{name} {arguments:?}");
        }
    }
    let wrong = [("lu", "100"), ("fft", "2048"), ("ocean", "100")];
    for (name, size) in wrong {
        let program = folder.join(format!("{name}-{isa}"));
        assert_eq!(run(&program, &["-n", size]).status.code(), Some(2));
    }
}

#[test]
fn digests_of_mips_code_are_those_of_this_processor() {
    let emulator = Isa::Mips1.emulator();
    let there = tanada_testing::program(&[emulator], "qemu-user", "kernels for mips1").is_some();
    let Some((isa, programs)) = here() else {
        return;
    };
    if !there || !compiles(Isa::Mips1) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, options) in SMALL {
        let wanted = digest(&run(&programs.join(format!("{name}-{isa}")), options));
        let there = kernels::build(name, Isa::Mips1, folder.path()).expect("it can be compiled");
        let mut command = Command::new(emulator);
        command.arg("-L").arg(Isa::Mips1.libraries());
        let output = command.arg(there).args(*options).args(["-p", "3"]).output();
        assert_eq!(digest(&output.expect("it starts")), wanted, "{name}");
    }
}

#[test]
fn equal_builds_have_equal_bytes() {
    let Some((isa, folder)) = here() else {
        return;
    };
    let other = tempfile::tempdir().expect("a folder");
    let second = kernels::build("radix", isa, other.path()).expect("it can be compiled");
    let bytes = [folder.join(format!("radix-{isa}")), second];
    let bytes = bytes.map(|path| std::fs::read(path).expect("a program"));
    assert!(bytes[0] == bytes[1]);
}

/// The digest of a workload's result.
#[derive(Default)]
struct Digested(Digest);

impl Words for Digested {
    fn write(&mut self, bytes: &[u8]) {
        let words = bytes.chunks_exact(8);
        words.for_each(|word| {
            self.0
                .add(u64::from_le_bytes(word.try_into().expect("8 bytes")))
        });
    }
}

#[test]
fn workloads_have_the_digests_of_the_programs_in_c() {
    let Some((isa, folder)) = here() else {
        return;
    };
    let pool = Pool::builder().workers(2).build().expect("a pool");
    for (name, options) in SMALL {
        let workload = find(name).expect("a workload for every kernel");
        for seed in ["1", "7"] {
            let arguments = [options, &["--seed", seed][..]].concat();
            let wanted = digest(&run(&folder.join(format!("{name}-{isa}")), &arguments));
            let mut values = values_of(workload, Purpose::Run);
            for pair in arguments.chunks_exact(2) {
                let flag = match pair[0] {
                    "-n" => "size",
                    "--seed" => "input-seed",
                    flag => flag.trim_start_matches('-'),
                };
                values
                    .set(flag, pair[1])
                    .expect("an option of the workload");
            }
            let prepared = workload.prepare(&values, &Site::new(2));
            let mut prepared = prepared.expect("it can be prepared");
            for way in [Way::Sequential, Way::Today(&pool), Way::Tasks(&pool)] {
                prepared.set_up(way, &Cancel::new()).expect("a first state");
                let ran = prepared.run(way, &Cancel::new(), None);
                ran.expect("it runs to its end");
                let mut output = Digested::default();
                prepared.result(&mut output);
                assert_eq!(output.0.to_string(), wanted, "{name} {way:?} seed {seed}");
            }
        }
    }
}
