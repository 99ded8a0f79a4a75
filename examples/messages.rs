//! Messages between two processes: a child measures, its parent sums up. The delivery `adaptive` wakes the parent once a millisecond at the
//! most while messages are dense, and at once when they are sparse.
//!
//! Run it with `cargo run --release -p tanada-examples --bin messages`.
#![forbid(unsafe_code)]

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;
use tanada_runtime::messages::{Channel, RecvError};

const FIELDS: u32 = 4;

fn measure() -> Result<(), Box<dyn std::error::Error>> {
    // The parent hands the channel over through the child's standard input.
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut sender = Channel::receive_from(&socket)?.sender()?;
    for day in 0..1000_u64 {
        for field in 0..FIELDS {
            let note = format!("day {day}");
            sender.send(field, day * u64::from(field), note.as_bytes())?;
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("measure") {
        return measure();
    }
    let channel = Channel::builder()
        .capacity(256)
        .payload(32)
        .delivery("adaptive")
        .bound(Duration::from_millis(1))
        .build_shared()?;
    let (ours, theirs) = UnixStream::pair()?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg("measure")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()?;
    channel.send_to(&ours)?;

    let mut receiver = channel.receiver()?;
    let (mut sums, mut last) = ([0; FIELDS as usize], Vec::new());
    loop {
        match receiver.recv() {
            Ok(message) => {
                sums[message.to() as usize] += message.value();
                last = message.to_vec();
            }
            Err(RecvError::Closed) => break,
            Err(error) => return Err(error.into()),
        }
    }
    child.wait()?;
    println!("{sums:?}, the last on {}", String::from_utf8_lossy(&last));
    Ok(())
}
