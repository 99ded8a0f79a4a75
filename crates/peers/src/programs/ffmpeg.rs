//! FFmpeg's decoder by its command. The time is that of `-benchmark`: from the first packet to the end, without the start of the program.
//! The stream is repeated so that the rest besides decoding counts little.

use super::{Counted, Program, Stream};
use crate::Fallible;
use crate::peers::command;
use md5::{Digest as _, Md5};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Copies of the stream in a measured run.
const COPIES: usize = 8;

/// The command, with as many decoding threads as workers.
pub(crate) struct Ffmpeg {
    program: PathBuf,
    threads: u16,
}

impl Ffmpeg {
    pub(crate) fn open(workers: u16) -> Fallible<Ffmpeg> {
        let program = command("ffmpeg").ok_or("no ffmpeg on the search path")?;
        Ok(Ffmpeg {
            program,
            threads: workers,
        })
    }

    fn command(&self, input: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args("-nostdin -hide_banner -benchmark -f h264".split(' '))
            .args(["-threads", &self.threads.to_string(), "-i"])
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
