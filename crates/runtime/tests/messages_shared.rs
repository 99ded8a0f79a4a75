//! Channels between processes: opening, deaths, hostile peers.
#![cfg(all(target_os = "linux", not(any(loom, shuttle))))]

mod own_process;

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use own_process::in_own_process;
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, SealFlags};
use tanada_runtime::messages::{
    Channel, ChannelError, Receiver, RecvError, SendError, Sender, Typed,
};

/// How many processes are killed. (`TANADA_FULL` needs no more: this is the number of the promise.)
const KILLS: u64 = 1_000;

fn small() -> Channel {
    let builder = Channel::builder().capacity(32).payload(16).senders(2);
    builder.build_shared().expect("the system has memory")
}

fn file_of(channel: &Channel) -> File {
    let memory = channel.memory().expect("it is shared");
    memory.try_clone_to_owned().expect("a descriptor").into()
}

fn opened(channel: &Channel) -> Result<Channel, ChannelError> {
    let bell = channel.bell().expect("it is shared");
    let bell = bell.try_clone_to_owned().expect("a descriptor");
    Channel::open(file_of(channel).into(), bell)
}

/// Starts this program as a child that runs the ignored test `name`, and hands it the channel and, as its standard output, a log.
fn child(name: &str, channel: &Channel, log: &File) -> Child {
    let (ours, theirs) = UnixStream::pair().expect("the system has sockets");
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", name, "--nocapture"])
        .env("TANADA_CHILD", "1")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::from(log.try_clone().expect("a descriptor")))
        .spawn()
        .expect("the child starts");
    channel.send_to(&ours).expect("the child listens");
    child
}

/// In the child: receives the channel.
fn received() -> Channel {
    use std::os::fd::AsFd;
    let socket = std::io::stdin().as_fd().try_clone_to_owned();
    Channel::receive_from(&socket.expect("a descriptor").into()).expect("the parent sends it")
}

/// A file whose appended words outlive their writer.
fn log() -> File {
    let name = std::env::temp_dir().join(format!("tanada-messages-{}", std::process::id()));
    let log = File::options()
        .append(true)
        .read(true)
        .create_new(true)
        .open(&name);
    let log = log.expect("the folder of temporary files can be written");
    std::fs::remove_file(name).expect("it was made above");
    log
}

fn words_of(log: &File) -> Vec<u64> {
    let mut bytes = vec![0; log.metadata().expect("it is open").len() as usize];
    log.read_exact_at(&mut bytes, 0).expect("it is that long");
    let words = bytes.chunks_exact(8);
    words
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        .collect()
}

fn append(word: u64) {
    let mut log = std::io::stderr().lock();
    log.write_all(&word.to_le_bytes())
        .expect("the log can be written");
}

/// A small generator, so that a run is the same every time but for the scheduler.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// Descriptors and mappings of this process.
fn resources() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd")
        .expect("proc is mounted")
        .count();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("proc is mounted");
    let channels = maps.lines().filter(|line| line.contains("tanada-channel"));
    (descriptors, channels.count())
}

#[test]
#[ignore = "a child of the tests below"]
fn child_sends() {
    if std::env::var_os("TANADA_CHILD").is_none() {
        return;
    }
    let mut sender = received().sender().expect("a lane is free");
    loop {
        let value = sender.sent();
        let payload = [value, !value].map(u64::to_le_bytes).concat();
        sender
            .send(5, value, &payload)
            .expect("the parent receives");
        append(value);
    }
}

#[test]
#[ignore = "a child of the tests below"]
fn child_receives() {
    if std::env::var_os("TANADA_CHILD").is_none() {
        return;
    }
    let mut receiver = received().receiver().expect("the place is free");
    loop {
        let message = receiver.recv().expect("the parent sends");
        append(message.value());
    }
}

/// Receives a message, which must be the next one.
fn take(receiver: &mut Receiver, next: &mut u64) -> Result<(), RecvError> {
    let message = receiver.recv_deadline(Instant::now() + Duration::from_secs(60))?;
    let value = message.value();
    assert_eq!(
        (message.to(), value),
        (5, *next),
        "none is lost, none comes twice"
    );
    assert_eq!(
        message.to_vec(),
        [value, !value].map(u64::to_le_bytes).concat()
    );
    *next += 1;
    Ok(())
}

#[test]
fn a_killed_sender_loses_nothing_and_holds_nothing_up() {
    in_own_process("kills_senders", &[]);
}

#[test]
#[ignore = "counts this process's descriptors"]
fn kills_senders() {
    let channel = small();
    let (log, mut random) = (log(), Random(1));
    let mut receiver = channel.receiver().expect("there is none yet");
    let (mut next, mut before) = (0, None);
    for kill in 0..KILLS {
        let first = next;
        let mut child = child("child_sends", &channel, &log);
        // At least one, so that the child is there; then for a time that no one knows.
        let wanted = 1 + random.below(100);
        while next < first + wanted {
            match take(&mut receiver, &mut next) {
                Ok(()) => {}
                // The child is still starting, and the one before it has gone.
                Err(RecvError::Closed) if next == first => {
                    std::thread::sleep(Duration::from_micros(200));
                }
                Err(error) => panic!("{error}"),
            }
        }
        if random.below(2) == 0 {
            // The child waits for room.
            std::thread::sleep(Duration::from_micros(random.below(300)));
        }
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        if kill % 50 != 0 {
            receiver.bury();
        }
        // Otherwise the receiver finds out by itself.
        let end = loop {
            if let Err(error) = take(&mut receiver, &mut next) {
                break error;
            }
        };
        assert_eq!(end, RecvError::Closed, "the lane is free, and not stuck");
        // Every message that `send` had returned for was received, and at most one more that was just committed. (The child before may
        // have said nothing of its last one, and this child nothing at all.)
        let said = words_of(&log).last().map_or(0, |last| last + 1);
        let said = said.max(first);
        assert!(
            said <= next && next <= said + 1,
            "{said} sent, {next} received"
        );
        assert_eq!(channel.sender().expect("it is free").sent(), next);
        if kill == 10 {
            before = Some(resources());
        }
    }
    assert_eq!(before, Some(resources()), "nothing is left of the dead");
}

#[test]
#[ignore = "a child of the test below"]
fn child_sends_values() {
    if std::env::var_os("TANADA_CHILD").is_none() {
        return;
    }
    let values = Typed::<[u64; 2]>::of(received()).expect("it is of that type");
    let mut sender = values.sender().expect("a lane is free");
    for value in 0.. {
        sender.send([value, !value]).expect("the parent receives");
    }
}

/// A future waits for values of another process, and hears that it was killed.
#[test]
fn a_killed_sender_is_noticed_by_a_future() {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    fn wait<F: Future>(future: F) -> F::Output {
        let unpark = Unpark(std::thread::current());
        let waker = std::task::Waker::from(std::sync::Arc::new(unpark));
        let mut context = std::task::Context::from_waker(&waker);
        let mut future = std::pin::pin!(future);
        loop {
            match future.as_mut().poll(&mut context) {
                std::task::Poll::Ready(output) => return output,
                std::task::Poll::Pending => std::thread::park(),
            }
        }
    }
    let null = File::options().append(true).open("/dev/null");
    let null = null.expect("it is there");
    let mut random = Random(3);
    for _ in 0..20 {
        let channel = Channel::builder()
            .capacity(32)
            .bound(Duration::from_micros(200));
        let channel = channel.build_shared_typed::<[u64; 2]>();
        let channel = channel.expect("the system has memory");
        let mut receiver = channel.receiver().expect("there is none yet");
        let mut child = child("child_sends_values", channel.channel(), &null);
        let wanted = 1 + random.below(200);
        for next in 0..wanted {
            let value = wait(receiver.recv_async()).expect("the child sends");
            assert_eq!(value, [next, !next]);
        }
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let mut next = wanted;
        let end = loop {
            match wait(receiver.recv_async()) {
                Ok(value) => assert_eq!(value, [next, !next]),
                Err(error) => break error,
            }
            next += 1;
        };
        assert_eq!(end, RecvError::Closed);
        assert!(next <= wanted + 33, "no more than the lane holds");
    }
}

#[test]
fn a_killed_receiver_loses_nothing_and_its_sender_hears_of_it() {
    in_own_process("kills_receivers", &[]);
}

/// Sends the next message, until `until` accepts an error.
fn put(sender: &mut Sender, next: &mut u64) -> Result<(), SendError> {
    sender.send_deadline(0, *next, b"", Instant::now() + Duration::from_secs(60))?;
    *next += 1;
    Ok(())
}

#[test]
#[ignore = "counts this process's descriptors"]
fn kills_receivers() {
    let channel = small();
    let (log, mut random) = (log(), Random(2));
    let mut sender = channel.sender().expect("a lane is free");
    let (mut next, mut before) = (0, None);
    for kill in 0..KILLS {
        let mut child = child("child_receives", &channel, &log);
        let wanted = next + 33 + random.below(100);
        while next < wanted {
            match put(&mut sender, &mut next) {
                Ok(()) => {}
                // The child is still starting, and the dead one's messages fill the channel.
                Err(SendError::Closed) => std::thread::sleep(Duration::from_micros(200)),
                Err(error) => panic!("{error}"),
            }
        }
        if random.below(2) == 0 {
            // The child sleeps.
            std::thread::sleep(Duration::from_micros(random.below(300)));
        }
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let end = loop {
            if let Err(error) = put(&mut sender, &mut next) {
                break error;
            }
        };
        assert_eq!(end, SendError::Closed);
        if kill == 10 {
            before = Some(resources());
        }
    }
    let seen = words_of(&log);
    let mut receiver = channel.receiver().expect("the place is free");
    let mut rest = Vec::new();
    while let Ok(message) = receiver.try_recv() {
        rest.push(message.value());
    }
    drop(receiver);
    assert_eq!(before, Some(resources()), "nothing is left of the dead");
    // All came, in order; a message that a receiver had in its hands when it was killed came again.
    let mut expected = 0;
    let mut again = 0;
    for value in seen.iter().chain(&rest) {
        if *value + 1 == expected {
            again += 1;
            continue;
        }
        assert_eq!(*value, expected);
        expected += 1;
    }
    assert_eq!(expected, next);
    assert!(again <= KILLS, "{again} came again");
}

#[test]
fn two_openers_have_one_channel() {
    let channel = small();
    let other = opened(&channel).expect("it is a channel");
    let mut receiver = channel.receiver().expect("there is none yet");
    assert!(matches!(other.receiver(), Err(ChannelError::Taken)));
    let mut senders = [other.sender(), channel.sender()].map(|sender| sender.expect("two lanes"));
    assert!(matches!(other.sender(), Err(ChannelError::Taken)));
    for (sender, value) in senders.iter_mut().zip(0..) {
        sender.send(1, value, b"in place").expect("there is room");
    }
    for value in 0..2 {
        let message = receiver.recv().expect("it was sent");
        assert_eq!(
            (message.value(), message.to_vec()),
            (value, b"in place".to_vec())
        );
    }
    drop(senders);
    assert!(matches!(receiver.recv(), Err(RecvError::Closed)));
    drop(receiver);
    assert!(other.receiver().is_ok());
}

#[test]
fn what_is_no_channel_is_refused() {
    let refused = |file: File| {
        let bell = small().bell().expect("shared").try_clone_to_owned();
        let opened = Channel::open(file.into(), bell.expect("a descriptor"));
        opened.map(|_| ()).unwrap_err().to_string()
    };
    let sealed = |bytes: &[u8]| memory_of(bytes, SealFlags::SHRINK);
    let text = refused(sealed(b"not a channel"));
    assert!(text.contains("too short"), "{text}");
    let text = refused(sealed(&[7; 4096]));
    assert!(text.contains("begins otherwise"), "{text}");
    // The content of a channel in a file that its owner could cut.
    let channel = small();
    let memory = file_of(&channel);
    let mut bytes = vec![0; memory.metadata().expect("open").len() as usize];
    memory
        .read_exact_at(&mut bytes, 0)
        .expect("it is that long");
    let uncut = memory_of(&bytes, SealFlags::empty());
    assert!(refused(uncut).contains("cut"));
    assert!(refused(sealed(&bytes[..2000])).contains("too short"));
    // A file of a file system, which may be a process that never answers.
    let text = refused(tempfile_of(&bytes));
    assert!(
        text.contains("no file of memory") || text.contains("cut"),
        "{text}"
    );
    // What is no bell.
    let (pipe, _other) = std::io::pipe().expect("the system has pipes");
    let bell = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty());
    for bell in [
        pipe.into(),
        bell.expect("a descriptor"),
        tempfile_of(b"").into(),
    ] {
        let opened = Channel::open(file_of(&channel).into(), bell);
        assert!(matches!(
            opened,
            Err(ChannelError::Refused("its bell is no timer"))
        ));
    }
    let in_process = Channel::builder().build().expect("small");
    assert!(in_process.memory().is_none() && in_process.bell().is_none());
    let (socket, _other) = UnixStream::pair().expect("the system has sockets");
    assert!(in_process.send_to(&socket).is_err());
}

/// A memory file with this content.
fn memory_of(bytes: &[u8], seals: SealFlags) -> File {
    let flags = MemfdFlags::ALLOW_SEALING;
    let mut file =
        File::from(rustix::fs::memfd_create("test", flags).expect("the system has memory"));
    file.write_all(bytes).expect("there is room");
    rustix::fs::fcntl_add_seals(&file, seals).expect("it can be sealed");
    file
}

/// Whoever takes a huge page out of a file may find none to put back, and the next access ends the process.
#[test]
fn huge_pages_are_refused() {
    let flags = MemfdFlags::HUGETLB | MemfdFlags::ALLOW_SEALING;
    let Ok(file) = rustix::fs::memfd_create("test", flags) else {
        return tanada_testing::skip("the kernel has no huge pages");
    };
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).expect("it can be sealed");
    let bell = small().bell().expect("shared").try_clone_to_owned();
    let opened = Channel::open(file, bell.expect("a descriptor"));
    let text = opened.map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("huge"), "{text}");
}

/// A process may hold a lease of the file, which makes others that open it wait for three quarters of a minute. Ends do not wait.
#[test]
fn a_peer_with_a_lease_makes_nobody_wait() {
    use std::os::fd::AsRawFd;
    let channel = small();
    let memory = channel.memory().expect("it is shared").as_raw_fd();
    let path = format!("/proc/self/fd/{memory}");
    let own = File::options().read(true).write(true).open(path);
    let own = own.expect("proc is mounted");
    let set = |command, value: libc::c_int| {
        #[allow(unsafe_code, reason = "the call is in no crate that is used here")]
        // SAFETY: the descriptor is open, and neither command has a pointer.
        let result = unsafe { libc::fcntl(own.as_raw_fd(), command, value) };
        result == 0
    };
    // The holder is told by a signal; this one is ignored.
    const SET_SIGNAL: libc::c_int = 10;
    if !set(SET_SIGNAL, libc::SIGURG) || !set(libc::F_SETLEASE, libc::F_WRLCK) {
        return tanada_testing::skip("the kernel gives no lease of memory");
    }
    // An end that waited would be there in the end.
    for _ in 0..2 {
        assert!(matches!(channel.sender(), Err(ChannelError::System(_))));
        assert!(matches!(channel.receiver(), Err(ChannelError::System(_))));
    }
    drop(own);
    assert!(channel.sender().is_ok() && channel.receiver().is_ok());
}

/// A peer has the bell, too: it makes its calls wait if it can, and fills it. No call of the others does so.
#[test]
fn a_peer_with_the_bell_makes_nobody_wait() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let builder = Channel::builder().delivery("immediate");
    let channel = builder.build_shared().expect("the system has memory");
    let mut sender = channel.sender().expect("free");
    let mut receiver = channel.receiver().expect("free");
    receiver.event().expect("the system has descriptors");
    let bell = channel.bell().expect("it is shared");
    rustix::fs::fcntl_setfl(bell, rustix::fs::OFlags::empty()).expect("the flag can be cleared");
    for value in 0..3 {
        assert!(
            receiver.rest().expect("nothing is corrupt"),
            "nothing has come"
        );
        // Almost as much as an `eventfd` counts.
        let _ = rustix::io::write(bell, &(u64::MAX - 1).to_ne_bytes());
        sender.send(1, value, b"").expect("there is room");
        let event = receiver.event().expect("made above");
        let patience = Timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        let ready = poll(&mut [PollFd::new(&event, PollFlags::IN)], Some(&patience));
        assert_eq!(ready.expect("it can be polled"), 1);
        assert_eq!(receiver.try_recv().expect("it was sent").value(), value);
    }
}

fn tempfile_of(bytes: &[u8]) -> File {
    let mut file = log();
    file.write_all(bytes).expect("there is room on the disk");
    file
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever the description says, it is refused, or describes a channel that lies within the file.
    #[test]
    fn a_damaged_description_is_refused_or_fits(at in 0..16_u64, number in any::<u64>(), small_one in any::<bool>()) {
        let channel = small();
        let number = if small_one { number % 70 } else { number };
        file_of(&channel).write_all_at(&number.to_le_bytes(), at * 8).expect("within the file");
        if let Ok(other) = opened(&channel) {
            let (mut sender, mut receiver) = (other.sender().expect("free"), other.receiver().expect("free"));
            let sent = sender.try_send(1, 2, b"");
            prop_assert!(sent.is_ok());
            prop_assert_eq!(receiver.try_recv().expect("it was sent").value(), 2);
        }
    }

    /// Words anywhere in the memory that another process overwrites: every call returns, and a payload is never longer than it can be.
    #[test]
    fn garbage_is_never_followed(writes in proptest::collection::vec((0..1_u64 << 20, any::<u64>(), 0..4_u8), 1..60)) {
        let channel = small();
        let memory = file_of(&channel);
        let words = memory.metadata().expect("open").len() / 8;
        let mut sender = channel.sender().expect("free");
        let mut receiver = channel.receiver().expect("free");
        for (at, garbage, kind) in writes {
            // Words that could be: counts near those in use.
            let word = match kind {
                0 => garbage,
                1 => garbage % 70,
                2 => sender.sent().wrapping_add(garbage % 3),
                _ => (garbage << 32) | (garbage % 40),
            };
            // The description is read once, when the channel is opened.
            let at = 16 + at % (words - 16);
            memory.write_all_at(&word.to_le_bytes(), at * 8).expect("within the file");
            for _ in 0..3 {
                match sender.try_send(1, 2, b"payload") {
                    Ok(()) | Err(SendError::Full | SendError::Corrupt | SendError::Closed) => {}
                    Err(error) => panic!("{error}"),
                }
                match receiver.recv_deadline(Instant::now()) {
                    Ok(message) => prop_assert!(message.len() <= 16 && message.to_vec().len() <= 16),
                    Err(RecvError::TimedOut | RecvError::Closed | RecvError::Corrupt { lane: 0 | 1 }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

/// A peer that scribbles all over the memory while both ends work: no call hangs, panics or reaches beyond the memory.
#[test]
fn a_scribbling_peer_stops_traffic_at_the_most() {
    use std::sync::atomic::{AtomicBool, Ordering};
    for seed in 0..20 {
        let channel = small();
        let memory = file_of(&channel);
        let bytes = memory.metadata().expect("open").len();
        let mut sender = channel.sender().expect("free");
        let mut receiver = channel.receiver().expect("free");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let scribbles = scope.spawn(|| {
                let mut random = Random(seed);
                for _ in 0..3_000 {
                    let at = 128 + random.below(bytes - 136);
                    let word = random.below(1 << 31) << random.below(40);
                    memory
                        .write_all_at(&word.to_le_bytes(), at)
                        .expect("within the file");
                }
                stop.store(true, Ordering::Relaxed);
            });
            let sends = scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let soon = Instant::now() + Duration::from_millis(1);
                    let _ = sender.send_deadline(1, 2, b"some payload", soon);
                }
            });
            while !stop.load(Ordering::Relaxed) {
                let soon = Instant::now() + Duration::from_millis(1);
                if let Ok(message) = receiver.recv_deadline(soon) {
                    assert!(message.to_vec().len() <= 16);
                }
            }
            // By hand: a sanitizer does not see that a scope waits.
            for thread in [scribbles, sends] {
                thread.join().expect("no panic");
            }
        });
    }
}
