//! Whether this program's tasks are taken over: decided once, from the environment and from the names that the program's files ask for.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use tanada_policy::registry;

use super::marks;
use crate::system;

/// The variable that asks for it: `1`, or the name of a policy; nothing or `0`: the runtime keeps its tasks.
const VARIABLE: &str = "TANADA_OMP_TASKS";

/// The policy of `1`.
const DEFAULT: &str = "random-steal";

/// Names that only programs with tasks ask for.
const TASKS: &[&str] = &[
    "GOMP_task",
    "GOMP_taskloop",
    "GOMP_taskloop_ull",
    "__kmpc_omp_task",
    "__kmpc_omp_task_with_deps",
    "__kmpc_omp_task_begin_if0",
    "__kmpc_taskloop",
    "__kmpc_taskloop_5",
];

/// Names whose meaning with tasks is not reproduced here: a program that asks for one keeps its runtime's tasks.
const NOT_UNDERSTOOD: &[&str] = &[
    "GOMP_target_ext",
    "GOMP_target_update_ext",
    "GOMP_target_enter_exit_data",
    "GOMP_target_data_ext",
    "GOMP_teams",
    "GOMP_teams4",
    "GOMP_teams_reg",
    "GOMP_parallel_start",
    "GOMP_parallel_loop_static_start",
    "GOMP_parallel_loop_dynamic_start",
    "GOMP_parallel_loop_guided_start",
    "GOMP_parallel_loop_runtime_start",
    "GOMP_parallel_sections_start",
    "__kmpc_fork_teams",
    "__kmpc_omp_target_task_alloc",
    "__tgt_target_kernel",
    "__tgt_target_mapper",
    "__tgt_target_teams_mapper",
    "__tgt_target_nowait_mapper",
    "__kmpc_omp_task_parts",
    "__kmpc_proxy_task_completed",
    "__kmpc_proxy_task_completed_ooo",
    "ompt_start_tool",
];

static POLICY: OnceLock<Option<&'static str>> = OnceLock::new();

/// Returns whether the program's tasks are taken over.
#[inline]
pub(crate) fn active() -> bool {
    POLICY.get_or_init(decide).is_some()
}

/// Returns the policy of teams.
pub(crate) fn policy() -> &'static str {
    POLICY.get_or_init(decide).unwrap_or(DEFAULT)
}

/// Returns whether tasks may run at their creation when many are open. The variable is that of LLVM's runtime.
pub(crate) fn throttles() -> bool {
    static THROTTLES: OnceLock<bool> = OnceLock::new();
    *THROTTLES.get_or_init(|| {
        let value = std::env::var("KMP_ENABLE_TASK_THROTTLING").unwrap_or_default();
        // A recording has no middle of a task in which another one could run.
        !marks::wanted()
            && !matches!(
                value.to_ascii_lowercase().as_str(),
                "0" | "false" | "off" | "no"
            )
    })
}

/// Returns the priority of a task whose clause says `wanted`: at most what `OMP_MAX_TASK_PRIORITY` says, without which there are none.
pub(crate) fn priority(wanted: c_int) -> c_int {
    static MOST: OnceLock<c_int> = OnceLock::new();
    let most = *MOST.get_or_init(|| {
        let value = std::env::var("OMP_MAX_TASK_PRIORITY").unwrap_or_default();
        value.trim().parse().unwrap_or(0)
    });
    wanted.clamp(0, most.max(0))
}

fn say(text: &str) {
    let verbose = std::env::var_os("TANADA_OMP_VERBOSE").is_some_and(|value| value != "0");
    if verbose || marks::asked() {
        eprintln!("tanada: {text}");
    }
}

#[cold]
fn decide() -> Option<&'static str> {
    let value = std::env::var(VARIABLE).ok()?;
    let policy = match value.as_str() {
        "" | "0" => return None,
        "1" => DEFAULT,
        name => match registry::find(name) {
            Ok(entry) if !entry.needs_prepared => entry.name,
            Ok(_) => {
                eprintln!(
                    "tanada: {VARIABLE}: {}; the runtime keeps its tasks",
                    registry::NotNative::named(name)
                );
                return None;
            }
            Err(error) => {
                eprintln!("tanada: {VARIABLE}: {error}; the runtime keeps its tasks");
                return None;
            }
        },
    };
    let names = undefined();
    if !TASKS.iter().any(|&name| names.contains(name)) {
        say("the program has no tasks");
        return None;
    }
    if let Some(name) = NOT_UNDERSTOOD.iter().find(|&&name| names.contains(name)) {
        say(&format!(
            "the runtime keeps the program's tasks, because the program calls {name}"
        ));
        return None;
    }
    if marks::asked() {
        marks::begin();
    } else {
        say(&format!("tasks run under {policy}"));
    }
    Some(policy)
}

/// Returns the names that files of this process ask for and do not have, except those of OpenMP runtimes and this library.
fn undefined() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    // SAFETY: `visit` is called with the files that are loaded, and with the set.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut names).cast()) };
    names
}

unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    names: *mut c_void,
) -> c_int {
    // SAFETY: the loader calls this with a file that is loaded, and with what `undefined` passed.
    unsafe {
        let file = if (*info).dlpi_name.is_null() {
            ""
        } else {
            CStr::from_ptr((*info).dlpi_name).to_str().unwrap_or("")
        };
        let base = file.rsplit('/').next().unwrap_or("");
        let own = [
            "libgomp",
            "libomp",
            "libiomp",
            "libtanada",
            "libc.so",
            "libm.so",
            "ld-linux",
            "linux-vdso",
        ];
        if !own.iter().any(|start| base.starts_with(start)) {
            let names = &mut *names.cast::<BTreeSet<String>>();
            let asked = system::Dynamic::of(&*info).map(|dynamic| {
                let asked = dynamic.asked().filter_map(|name| name.to_str().ok());
                asked.map(str::to_owned).collect::<Vec<_>>()
            });
            names.extend(asked.unwrap_or_default());
        }
    }
    0
}
