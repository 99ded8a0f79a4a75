//! Goroutines: a program of its own (`native/threads.go`), which `build.rs` compiles if there is a Go toolchain. It prints what it
//! measured.

use super::{Alive, Light};
use crate::Fallible;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The compiled program, for so many workers.
pub(crate) struct Go {
    program: PathBuf,
    workers: u16,
}

impl Go {
    pub(crate) fn open(program: &Path, workers: u16) -> Go {
        let program = program.to_owned();
        Go { program, workers }
    }

    /// Lets the program do one thing. It prints the nanoseconds that it took, and a further number.
    fn run(&self, what: &str, number: u32, times: u32) -> Fallible<(Duration, u64)> {
        let output = Command::new(&self.program)
            .args([what, &number.to_string(), &times.to_string()])
            .env("GOMAXPROCS", self.workers.to_string())
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let first = errors.lines().next().unwrap_or_default();
            return Err(format!("the Go program: {}: {first}", output.status).into());
        }
        let mut words = text.split_whitespace();
        let mut next = || words.next().ok_or("the Go program printed too little");
        let nanoseconds = next()?.parse()?;
        Ok((Duration::from_nanos(nanoseconds), next()?.parse()?))
    }
}

impl Light for Go {
    fn create(&mut self, many: u32, times: u32) -> Fallible<Duration> {
        let (time, sum) = self.run("create", many, times)?;
        super::checked(many, times, sum)?;
        Ok(time)
    }

    fn switch(&mut self, threads: u32, times: u32) -> Fallible<Duration> {
        Ok(self.run("switch", threads, times)?.0)
    }

    fn ping_pong(&mut self, times: u32) -> Fallible<Duration> {
        Ok(self.run("ping-pong", 2, times)?.0)
    }

    fn alive(&mut self, threads: u32) -> Fallible<Alive> {
        let (time, bytes) = self.run("alive", threads, 1)?;
        Ok(Alive { time, bytes })
    }
}
