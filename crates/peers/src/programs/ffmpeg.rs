//! FFmpeg's decoder by its command. The time is that of `-benchmark`: from the first packet to the end, without the start of the program.
//! The stream is repeated so that the rest besides decoding counts little.

use super::{Counted, Program, Stream};
use crate::Fallible;
use crate::peers::command;
use md5::{Digest as _, Md5};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Copies of the stream in a measured run.
const COPIES: usize = 8;

/// The environment variable with the number of decoding threads.
pub(crate) const THREADS: &str = "PEERS_FFMPEG_THREADS";

/// The command. It has a number of decoding threads of its own, and they run on as many hardware threads as there are workers.
pub(crate) struct Ffmpeg {
    program: PathBuf,
    threads: String,
}

impl Ffmpeg {
    /// Returns the peer, and confines this process to `workers` of its hardware threads; the command inherits them.
    pub(crate) fn open(workers: u16) -> Fallible<Ffmpeg> {
        let program = command("ffmpeg").ok_or("no ffmpeg on the search path")?;
        let threads = std::env::var(THREADS).unwrap_or_else(|_| workers.to_string());
        let allowed = sched_getaffinity(None)?;
        let mut few = CpuSet::new();
        let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        cpus.take(usize::from(workers)).for_each(|cpu| few.set(cpu));
        sched_setaffinity(None, &few)?;
        Ok(Ffmpeg { program, threads })
    }

    fn command(&self, input: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args("-nostdin -hide_banner -benchmark -f h264".split(' '))
            .args(["-threads", &self.threads, "-i"])
            .arg(input)
            .args(["-an", "-vsync", "passthrough"])
            .stdin(Stdio::null());
        command
    }

    fn digest(&self, input: &Path, digest: &mut Md5) -> Fallible<()> {
        let mut command = self.command(input);
        command
            .args(["-f", "rawvideo", "-pix_fmt", "yuv420p", "-"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn()?;
        let mut out = child.stdout.take().expect("it is piped");
        let mut part = vec![0; 1 << 20];
        loop {
            match out.read(&mut part)? {
                0 => break,
                n => digest.update(&part[..n]),
            }
        }
        let status = child.wait()?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("ffmpeg: {status}").into()),
        }
    }
}

/// Returns the frames and seconds that `-benchmark` printed.
fn parse(log: &str) -> Option<Counted> {
    let number = |text: &str| -> Option<f64> {
        let text = text.trim_start();
        let mut words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
        words.next()?.parse().ok()
    };
    // Each line of progress overwrites the one before; the last counts.
    let frames = number(log.rsplit("frame=").next()?)?;
    let seconds = number(log.split("rtime=").nth(1)?)?;
    (seconds > 0.0).then_some(Counted {
        count: frames as u64,
        seconds,
    })
}

impl Program for Ffmpeg {
    fn decode(&mut self, stream: &Stream, digest: Option<&mut Md5>) -> Fallible<Counted> {
        let stream = stream.bytes()?;
        let copies = if digest.is_some() { 1 } else { COPIES };
        let mut input = tempfile::Builder::new().suffix(".264").tempfile()?;
        (0..copies).try_for_each(|_| input.write_all(&stream))?;
        if let Some(digest) = digest {
            self.digest(input.path(), digest)?;
        }
        let output = self
            .command(input.path())
            .args(["-f", "null", "-"])
            .output()?;
        let log = String::from_utf8_lossy(&output.stderr);
        parse(&log).ok_or_else(|| format!("ffmpeg says nothing that is understood: {log}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_understood() {
        let log = "frame=    1 fps=0.0 q=-0.0\rframe=  128 fps= 42 q=-0.0 Lsize=N/A\nvideo:59kB\n\
                   bench: utime=0.109s stime=0.000s rtime=0.125s\nbench: maxrss=58364kB\n";
        assert_eq!(
            parse(log),
            Some(Counted {
                count: 128,
                seconds: 0.125
            })
        );
        assert_eq!(parse("no such file"), None);
    }
}
