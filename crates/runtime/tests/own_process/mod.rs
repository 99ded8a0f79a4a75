//! Tests that end their process, or need one of their own.
#![allow(dead_code, reason = "not every test program uses all")]

use std::process::{Command, ExitStatus};

/// Runs the test called `name`, which is marked `#[ignore]`, in a process of its own, and returns what it wrote.
pub(crate) fn run_in_own_process(name: &str, environment: &[(&str, &str)]) -> (ExitStatus, String) {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", name, "--nocapture"])
        .envs(environment.iter().copied())
        .output()
        .expect("the test starts");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    // The status says nothing of a report if the process is to end by a fault.
    assert!(!text.contains("Sanitizer: "), "{text}");
    (output.status, text)
}

/// Does as [`run_in_own_process`], and fails unless the test passes.
pub(crate) fn in_own_process(name: &str, environment: &[(&str, &str)]) {
    let (status, text) = run_in_own_process(name, environment);
    assert!(status.success() && text.contains("1 passed"), "{text}");
}

/// Returns how the child ended: its exit code, or the negative number of its signal.
#[allow(unsafe_code, reason = "waitpid(2)")]
pub(crate) fn outcome_of(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: waits for a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    match libc::WIFEXITED(status) {
        true => libc::WEXITSTATUS(status),
        false => -libc::WTERMSIG(status),
    }
}
