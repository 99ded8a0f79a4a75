//! Compiles the bodies that all peers share, and the native peers whose compiler and library are here. A peer that cannot be compiled
//! is absent with a reason; that is no error.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A shared object that is made of one file where its library is installed.
struct Native {
    /// `PEERS_NATIVE_{key}` is the path of the shared object, or `PEERS_ABSENT_{key}` says why there is none.
    key: &'static str,
    compiler: &'static str,
    source: &'static str,
    /// What must compile for the library to be here.
    probe: &'static str,
    flags: &'static [&'static str],
    libraries: &'static [&'static str],
    /// What would install it.
    remedy: &'static str,
}

const NATIVES: &[Native] = &[
    Native {
        key: "TBB",
        compiler: "g++",
        source: "tbb.cpp",
        probe: "#include <tbb/flow_graph.h>\n",
        flags: &["-std=c++17"],
        libraries: &["-ltbb"],
        remedy: "Debian: apt install g++ libtbb-dev",
    },
    Native {
        key: "TBB_COUNTERS",
        compiler: "g++",
        source: "tbb_counters.cpp",
        probe: "#include <tbb/task_group.h>\n",
        flags: &["-std=c++17"],
        libraries: &["-ltbb"],
        remedy: "Debian: apt install g++ libtbb-dev",
    },
    Native {
        key: "OPENMP_GCC",
        compiler: "gcc",
        source: "openmp.c",
        probe: "#include <omp.h>\n",
        flags: &["-std=gnu11", "-fopenmp"],
        libraries: &[],
        remedy: "Debian: apt install gcc",
    },
    Native {
        key: "OPENMP_LLVM",
        compiler: "clang",
        source: "openmp.c",
        probe: "#include <omp.h>\n",
        flags: &["-std=gnu11", "-fopenmp=libomp"],
        libraries: &[],
        remedy: "Debian: apt install clang libomp-dev",
    },
    Native {
        key: "DOACROSS_GCC",
        compiler: "gcc",
        source: "doacross.c",
        probe: "#include <omp.h>\n",
        flags: &["-std=gnu11", "-fopenmp"],
        libraries: &[],
        remedy: "Debian: apt install gcc",
    },
    Native {
        key: "DOACROSS_LLVM",
        compiler: "clang",
        source: "doacross.c",
        probe: "#include <omp.h>\n",
        flags: &["-std=gnu11", "-fopenmp=libomp"],
        libraries: &[],
        remedy: "Debian: apt install clang libomp-dev",
    },
    Native {
        key: "ROW_PROGRESS",
        compiler: "gcc",
        source: "row_progress.c",
        probe: "#include <pthread.h>\n",
        flags: &["-std=gnu11", "-pthread"],
        libraries: &[],
        remedy: "Debian: apt install gcc",
    },
    Native {
        key: "SKEWED",
        compiler: "gcc",
        source: "skewed.c",
        probe: "#include <pthread.h>\n",
        flags: &["-std=gnu11", "-pthread"],
        libraries: &[],
        remedy: "Debian: apt install gcc",
    },
    Native {
        key: "OPENH264",
        compiler: "gcc",
        source: "openh264.c",
        probe: "#include <stdlib.h>\n#include <wels/codec_api.h>\n",
        flags: &["-std=gnu11"],
        libraries: &["-lopenh264"],
        remedy: "Debian: apt install gcc libopenh264-dev",
    },
    Native {
        key: "STARPU",
        compiler: "gcc",
        source: "starpu.c",
        probe: "#include <starpu.h>\n",
        flags: &[
            "-std=gnu11",
            "-I/usr/include/starpu/1.3",
            "-I/usr/local/include/starpu/1.3",
        ],
        libraries: &["-lstarpu-1.3"],
        remedy: "Debian: apt install gcc libstarpu-dev",
    },
    Native {
        key: "TASKFLOW",
        compiler: "g++",
        source: "taskflow.cpp",
        probe: "#include <taskflow/taskflow.hpp>\n",
        flags: &["-std=c++20", "-pthread"],
        libraries: &[],
        remedy: "Debian has no package: set CPLUS_INCLUDE_PATH to a folder that holds taskflow/taskflow.hpp",
    },
];

fn main() {
    println!("cargo::rerun-if-changed=native");
    println!("cargo::rerun-if-changed=../openmp/programs/tiles.h");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CPLUS_INCLUDE_PATH");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    cc::Build::new()
        .file("native/body.c")
        .std("gnu11")
        .opt_level(3)
        .flag_if_supported("-march=native")
        .flag_if_supported("-ftls-model=initial-exec")
        // The same rounding as in all other stencils.
        .flag_if_supported("-ffp-contract=off")
        .compile("peers_body");
    // Without the flag that the stencil needs: a product and a sum are one instruction.
    cc::Build::new()
        .file("native/cholesky.c")
        .std("gnu11")
        .opt_level(3)
        .flag_if_supported("-march=native")
        .compile("peers_cholesky");
    // Shared objects of native peers call the bodies in this executable.
    println!("cargo::rustc-link-arg-bins=-rdynamic");
    match compile_go(&out) {
        Ok(path) => println!("cargo::rustc-env=PEERS_NATIVE_GO={}", path.display()),
        Err(why) => println!("cargo::rustc-env=PEERS_ABSENT_GO={why}"),
    }
    for native in NATIVES {
        match compile(native, &out) {
            Ok(path) => println!(
                "cargo::rustc-env=PEERS_NATIVE_{}={}",
                native.key,
                path.display()
            ),
            Err(why) => println!("cargo::rustc-env=PEERS_ABSENT_{}={why}", native.key),
        }
    }
}

/// Compiles the goroutines of the case `threads`, a program of its own, without a look at the network.
fn compile_go(out: &Path) -> Result<PathBuf, String> {
    let path = out.join("peer-threads");
    let made = Command::new("go")
        .args(["build", "-o"])
        .arg(&path)
        .arg("native/threads.go")
        .env("GOCACHE", out.join("go-cache"))
        .env("GOPATH", out.join("go"))
        .envs([
            ("GO111MODULE", "off"),
            ("GOTOOLCHAIN", "local"),
            ("GOPROXY", "off"),
            ("GOFLAGS", ""),
            ("CGO_ENABLED", "0"),
        ])
        .output();
    match made {
        Ok(made) if made.status.success() => Ok(path),
        Ok(made) => {
            for line in String::from_utf8_lossy(&made.stderr).lines() {
                println!("cargo::warning={line}");
            }
            Err("native/threads.go needs Go 1.22 or newer (go.dev/dl)".to_owned())
        }
        Err(_) => Err("not installed (Debian: apt install golang-go, 1.22 or newer)".to_owned()),
    }
}

fn compile(native: &Native, out: &Path) -> Result<PathBuf, String> {
    let language = if native.source.ends_with(".cpp") {
        "c++"
    } else {
        "c"
    };
    let base = || {
        let mut command = Command::new(native.compiler);
        command
            .args(["-O3", "-march=native", "-shared", "-fPIC"])
            .args(native.flags);
        command
    };
    let probe = out.join(format!("probe-{}.{language}", native.key));
    std::fs::write(&probe, native.probe).expect("the output folder can be written");
    let probed = base()
        .arg(&probe)
        .arg("-o")
        .arg(out.join("probe.so"))
        .args(native.libraries)
        .stderr(Stdio::null())
        .status();
    if !probed.is_ok_and(|status| status.success()) {
        return Err(format!("not installed ({})", native.remedy));
    }
    let path = out.join(format!("peer-{}.so", native.key));
    let made = base()
        .arg(format!("native/{}", native.source))
        .arg("-o")
        .arg(&path)
        .args(native.libraries)
        .output();
    match made {
        Ok(made) if made.status.success() => Ok(path),
        Ok(made) => {
            for line in String::from_utf8_lossy(&made.stderr).lines() {
                println!("cargo::warning={line}");
            }
            Err(format!(
                "native/{} does not compile with what is installed",
                native.source
            ))
        }
        Err(error) => Err(format!("{}: {error}", native.compiler)),
    }
}
