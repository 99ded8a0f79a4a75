//! Kernels as programs with POSIX threads in C, compiled for any processor: what thread by thread recordings are made of.
//!
//! The sources lie in `crates/workloads/kernels/` and are embedded, so an installed program has them. Each prints a digest of its result,
//! which is the same for any number of threads, for any processor, and for the workload of the same name; `--check` compares the result
//! with a reference. [`build`] compiles one.

use crate::options::named;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HEADER: &str = include_str!("../kernels/kernel.h");

const SOURCES: &[(&str, &str)] = &[
    ("lu", include_str!("../kernels/lu.c")),
    ("fft", include_str!("../kernels/fft.c")),
    ("radix", include_str!("../kernels/radix.c")),
    ("ocean", include_str!("../kernels/ocean.c")),
    ("barnes", include_str!("../kernels/barnes.c")),
    ("hash", include_str!("../kernels/hash.c")),
];

/// Kernels of parallel regions in OpenMP, with the headers that they share: what region profiles are measured from.
const REGION_HEADERS: &[(&str, &str)] = &[
    ("region.h", include_str!("../kernels/openmp/region.h")),
    ("grid.h", include_str!("../kernels/openmp/grid.h")),
];

const REGION_SOURCES: &[(&str, &str)] = &[
    ("ep", include_str!("../kernels/openmp/ep.c")),
    ("cg", include_str!("../kernels/openmp/cg.c")),
    ("mg", include_str!("../kernels/openmp/mg.c")),
    ("ft", include_str!("../kernels/openmp/ft.c")),
    ("is", include_str!("../kernels/openmp/is.c")),
    ("sp", include_str!("../kernels/openmp/sp.c")),
    ("bt", include_str!("../kernels/openmp/bt.c")),
    ("lu", include_str!("../kernels/openmp/lu.c")),
    ("ua", include_str!("../kernels/openmp/ua.c")),
];

const REGION_FLAGS: &[&str] = &["-std=gnu11", "-O3", "-ffp-contract=off", "-fopenmp"];

/// Flags for every processor. A fused multiply-add rounds once instead of twice, and the result would not be the same everywhere.
const FLAGS: &[&str] = &["-std=c99", "-O3", "-ffp-contract=off", "-pthread"];

/// A mark is the system call `getppid(MARK + kind, a, b)`: no other program passes such a first argument, and natively it changes nothing.
pub const MARK: u64 = 0x7a01_0040;

/// Kind of the mark at which the measured part of a kernel begins: before its input is made. `a` is the size, `b` the number of threads.
pub const MARK_BEGIN: u64 = 0;

/// Kind of the mark at which the measured part ends: before the digest is computed.
pub const MARK_END: u64 = 1;

/// Kind of the mark that thread 0 sets at the begin of step `a`: of a diagonal block, a pass, a cycle, a round.
pub const MARK_PHASE: u64 = 2;

/// The processors that kernels can be compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// 64-bit x86.
    X86_64,
    /// MIPS-I, little endian, with 32-bit floating-point registers: the code of paper 2's evaluation.
    Mips1,
    /// 64-bit Arm.
    Aarch64,
    /// 32-bit Arm with hardware floating point.
    Arm,
    /// 64-bit RISC-V.
    Riscv64,
}

named!(
    Isa,
    "instruction set",
    X86_64 = "x86-64",
    Mips1 = "mips1" | "mips" | "mipsel",
    Aarch64 = "aarch64" | "arm64",
    Arm = "arm" | "armhf",
    Riscv64 = "riscv64" | "riscv",
);

/// How to compile for a processor on another one, in Debian.
struct Cross {
    compiler: &'static str,
    package: &'static str,
    flags: &'static [&'static str],
    emulator: &'static str,
    libraries: &'static str,
}

impl Isa {
    /// Returns the instruction set of this process; `None`: none of these.
    pub fn host() -> Option<Isa> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Isa::X86_64),
            "aarch64" => Some(Isa::Aarch64),
            "riscv64" => Some(Isa::Riscv64),
            _ => None,
        }
    }

    /// Returns the name of the user-mode emulator for this processor.
    pub fn emulator(self) -> &'static str {
        self.cross().emulator
    }

    /// Returns the folder with the libraries of its dynamically linked programs on another processor: the value of the emulator's `-L`.
    pub fn libraries(self) -> &'static Path {
        Path::new(self.cross().libraries)
    }

    /// Returns the compiler's name and the Debian package that has it. A machine that is such a processor itself uses its `cc`.
    pub fn compiler(self) -> (&'static str, &'static str) {
        if Isa::host() == Some(self) {
            ("cc", "gcc")
        } else {
            (self.cross().compiler, self.cross().package)
        }
    }

    const fn cross(self) -> Cross {
        match self {
            Isa::X86_64 => Cross {
                compiler: "x86_64-linux-gnu-gcc",
                package: "gcc-x86-64-linux-gnu",
                flags: &[],
                emulator: "qemu-x86_64",
                libraries: "/usr/x86_64-linux-gnu",
            },
            Isa::Mips1 => Cross {
                compiler: "mipsel-linux-gnu-gcc",
                package: "gcc-mipsel-linux-gnu",
                flags: &["-march=mips1", "-mfp32"],
                emulator: "qemu-mipsel",
                libraries: "/usr/mipsel-linux-gnu",
            },
            Isa::Aarch64 => Cross {
                compiler: "aarch64-linux-gnu-gcc",
                package: "gcc-aarch64-linux-gnu",
                flags: &[],
                emulator: "qemu-aarch64",
                libraries: "/usr/aarch64-linux-gnu",
            },
            Isa::Arm => Cross {
                compiler: "arm-linux-gnueabihf-gcc",
                package: "gcc-arm-linux-gnueabihf",
                flags: &[],
                emulator: "qemu-arm",
                libraries: "/usr/arm-linux-gnueabihf",
            },
            Isa::Riscv64 => Cross {
                compiler: "riscv64-linux-gnu-gcc",
                package: "gcc-riscv64-linux-gnu",
                flags: &[],
                emulator: "qemu-riscv64",
                libraries: "/usr/riscv64-linux-gnu",
            },
        }
    }
}

/// Why there is no program.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is no kernel of this name.
    #[error("unknown kernel \"{0}\"; there are {1}")]
    Unknown(String, String),
    /// The compiler is not there.
    #[error("no {compiler}, which compiles kernels for {isa}: apt-get install {package}")]
    NoCompiler {
        /// The instruction set.
        isa: Isa,
        /// The program that was looked for in `PATH`.
        compiler: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// The compiler is there and failed.
    #[error("{compiler} cannot compile {name}: {message}")]
    Failed {
        /// The program that failed.
        compiler: &'static str,
        /// The kernel.
        name: String,
        /// What it wrote to standard error.
        message: String,
    },
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl std::fmt::Debug for BuildError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Returns the names of all kernels.
pub fn names() -> Vec<&'static str> {
    SOURCES.iter().map(|(name, _)| *name).collect()
}

/// Compiles the kernel `name` for `isa` into `folder`, and returns the path of the program, `folder/NAME-ISA`. A program that is there
/// already is replaced; equal compilers make equal bytes in any folder. Takes about a second.
///
/// The program is linked dynamically: a recorder preloads a library into it.
///
/// # Errors
/// See [`BuildError`]; `folder` has no part of a program then.
pub fn build(name: &str, isa: Isa, folder: &Path) -> Result<PathBuf, BuildError> {
    let threads = Kind {
        sources: SOURCES,
        headers: &[("kernel.h", HEADER)],
        flags: FLAGS,
    };
    build_with(isa.compiler(), &threads, name, isa, folder)
}

/// Compiles the OpenMP kernel `name` for x86-64 into `folder`, as [`build`] does; its loops have the sizes of a NAS parallel benchmark, and
/// marks around a sample of each region.
///
/// # Errors
/// See [`BuildError`].
pub fn build_regions(name: &str, folder: &Path) -> Result<PathBuf, BuildError> {
    let regions = Kind {
        sources: REGION_SOURCES,
        headers: REGION_HEADERS,
        flags: REGION_FLAGS,
    };
    build_with(Isa::X86_64.compiler(), &regions, name, Isa::X86_64, folder)
}

/// Kernels that are compiled alike.
struct Kind {
    sources: &'static [(&'static str, &'static str)],
    headers: &'static [(&'static str, &'static str)],
    flags: &'static [&'static str],
}

fn build_with(
    (compiler, package): (&'static str, &'static str),
    kind: &Kind,
    name: &str,
    isa: Isa,
    folder: &Path,
) -> Result<PathBuf, BuildError> {
    let known = kind.sources.iter().find(|(known, _)| *known == name);
    let &(name, source) = known.ok_or_else(|| {
        let names: Vec<&str> = kind.sources.iter().map(|(name, _)| *name).collect();
        BuildError::Unknown(name.to_owned(), names.join(", "))
    })?;
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| BuildError::Io { path, source }
    };
    // Beside the program, so that the finished file is moved within one file system: two builds at once do not disturb each other.
    let place = tempfile::tempdir_in(folder).map_err(at(folder))?;
    let file = format!("{name}.c");
    for &(file, text) in kind.headers.iter().chain([&(&*file, source)]) {
        let path = place.path().join(file);
        std::fs::write(&path, text).map_err(at(&path))?;
    }
    let ran = Command::new(compiler)
        .current_dir(place.path())
        .args(kind.flags)
        .args(isa.cross().flags)
        .args(["-o", name, &*file, "-lm"])
        .output();
    match ran {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(BuildError::NoCompiler {
            isa,
            compiler,
            package,
        }),
        Err(error) => Err(at(Path::new(compiler))(error)),
        Ok(Output { status, stderr, .. }) if !status.success() => Err(BuildError::Failed {
            compiler,
            name: name.to_owned(),
            message: String::from_utf8_lossy(&stderr).trim().to_owned(),
        }),
        Ok(_) => {
            let program = folder.join(format!("{name}-{isa}"));
            std::fs::rename(place.path().join(name), &program).map_err(at(&program))?;
            Ok(program)
        }
    }
}

/// The digest that kernels print, over the words of a result in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Digest(0xCBF2_9CE4_8422_2325)
    }
}

impl Digest {
    /// Adds the next word.
    pub fn add(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_is_named_with_its_package() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = ("no-such-compiler", "gcc-none");
        let kind = Kind {
            sources: SOURCES,
            headers: &[],
            flags: FLAGS,
        };
        let error = build_with(missing, &kind, "lu", Isa::Mips1, folder.path()).expect_err("none");
        assert_eq!(
            error.to_string(),
            "no no-such-compiler, which compiles kernels for mips1: apt-get install gcc-none"
        );
        let failing = ("false", "coreutils");
        let error =
            build_with(failing, &kind, "lu", Isa::Mips1, folder.path()).expect_err("it fails");
        assert!(matches!(error, BuildError::Failed { .. }), "{error}");
        let left = std::fs::read_dir(folder.path()).expect("the folder");
        assert_eq!(left.count(), 0, "nothing is left behind");
    }

    #[test]
    fn unknown_kernels_and_folders_are_errors() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = build("lux", Isa::X86_64, folder.path()).expect_err("there is none");
        assert_eq!(
            error.to_string(),
            "unknown kernel \"lux\"; there are lu, fft, radix, ocean, barnes, hash"
        );
        let missing = folder.path().join("missing");
        let error = build("lu", Isa::X86_64, &missing).expect_err("there is none");
        assert!(error.to_string().contains("missing"), "{error}");
    }

    #[test]
    fn marks_are_those_of_the_header() {
        let line = format!("enum {{ KERNEL_MARK = {MARK:#x} }};");
        assert!(HEADER.contains(&line), "{line}");
        assert_eq!([MARK_BEGIN, MARK_END, MARK_PHASE], [0, 1, 2]);
        let kinds = "enum { KERNEL_MARK_BEGIN, KERNEL_MARK_END, KERNEL_MARK_PHASE };";
        assert!(HEADER.contains(kinds));
    }

    #[test]
    fn instruction_sets_have_names() {
        for isa in Isa::ALL {
            assert_eq!(isa.name().parse(), Ok(isa));
        }
        let error = "z80".parse::<Isa>().expect_err("there is none");
        assert!(error.contains("mips1"), "{error}");
    }
}
