//! A short soak as a test: longest in a release build, whose threads meet most often.

use std::process::Command;

#[test]
fn random_graphs_run_every_task_once_and_in_order() {
    let duration = match (std::env::var_os("TANADA_FULL"), cfg!(debug_assertions)) {
        (Some(_), _) => "5m",
        (None, true) => "2s",
        (None, false) => "10s",
    };
    let mut soak = Command::new(env!("CARGO_BIN_EXE_tanada-soak"));
    let output = soak.args(["--duration", duration]).output();
    let output = output.expect("the program starts");
    let (out, errors) = (output.stdout.as_slice(), output.stderr.as_slice());
    let text = [out, errors].concat();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&text)
    );
}
