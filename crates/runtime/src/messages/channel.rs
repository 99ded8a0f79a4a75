//! A channel, and what its ends share.

use super::builder::ChannelBuilder;
use super::clock;
use super::doze::Bed;
use super::error::ChannelError;
use super::futex;
use super::memory::{MAX_SENDERS, Memory};
use super::presence;
use super::receiver::Receiver;
use super::sender::Sender;
use crate::process::Process;
use std::fmt;
use std::task::Waker;
use tanada_policy::deliveries::Entry;
use tanada_policy::{Delivery, DeliverySite, Tell};
use tanada_queues::LaneShape;
use tanada_queues::sync::atomic::Ordering;
use tanada_queues::sync::{Arc, Mutex};

#[cfg(not(shuttle))]
use {
    super::bell::Bell,
    super::lock::{self, Lock},
    super::memory::{DESCRIPTION, check_file, size_of_map},
    std::fs::File,
    std::os::fd::{AsFd, BorrowedFd, OwnedFd},
    std::sync::OnceLock,
    tanada_policy::deliveries,
};

/// What all ends of a channel agree on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    delivery: &'static Entry,
    site: DeliverySite,
    shape: LaneShape,
    lanes: usize,
    spin: u32,
}

impl Settings {
    /// Checks the numbers; the site's capacity is that of the lanes.
    pub(super) fn new(
        delivery: &'static Entry,
        site: DeliverySite,
        payload: u32,
        lanes: usize,
        spin: u32,
    ) -> Result<Settings, ChannelError> {
        let shape = LaneShape::new(site.capacity, payload);
        let shape = shape.filter(|shape| shape.capacity() == site.capacity);
        let shape = shape.ok_or(ChannelError::Limit("capacity or payload"))?;
        let within = |number: u64| (1..=site.capacity).contains(&number);
        match () {
            () if !(1..=MAX_SENDERS).contains(&lanes) => {
                Err(ChannelError::Limit("number of senders"))
            }
            () if site.bound == 0 => Err(ChannelError::Limit("bound")),
            () if !within(site.headroom) => Err(ChannelError::Limit("headroom")),
            () if !within(site.batch) => Err(ChannelError::Limit("batch")),
            () => Ok(Settings {
                delivery,
                site,
                shape,
                lanes,
                spin,
            }),
        }
    }
}

/// The description of a shared channel, its first words. An opener reads each of them once and checks it.
#[cfg(not(shuttle))]
mod description {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// The letters "tanada\0m": what stands first.
    const MAGIC: u64 = u64::from_le_bytes(*b"tanada\0m");
    /// Rises whenever the layout, or what goes with it, changes.
    const VERSION: u64 = 2;
    /// Words of the delivery's name.
    const NAME: usize = 4;

    pub(super) fn write(settings: &Settings, words: &[AtomicU64; DESCRIPTION]) {
        let site = &settings.site;
        let mut name = [0; NAME * 8];
        name[..settings.delivery.name.len()].copy_from_slice(settings.delivery.name.as_bytes());
        let numbers = [
            VERSION,
            settings.lanes as u64,
            site.capacity,
            u64::from(settings.shape.payload()),
            site.bound,
            site.headroom,
            site.batch,
            u64::from(settings.spin),
        ];
        let (head, rest) = words.split_at(1);
        let name = name
            .chunks(8)
            .map(|chunk| u64::from_le_bytes(std::array::from_fn(|i| chunk[i])));
        for (word, number) in rest.iter().zip(numbers.into_iter().chain(name)) {
            word.store(number, Ordering::Relaxed);
        }
        head[0].store(MAGIC, Ordering::Release);
    }

    /// Returns the settings in `words`, which stand at the beginning of a file.
    pub(super) fn read(words: &[u64; DESCRIPTION]) -> Result<Settings, ChannelError> {
        let refused = ChannelError::Refused;
        let [
            magic,
            version,
            lanes,
            capacity,
            payload,
            bound,
            headroom,
            batch,
            spin,
            name @ ..,
        ] = *words;
        if magic != MAGIC {
            return Err(refused("it begins otherwise"));
        }
        if version != VERSION {
            return Err(refused("its layout is that of another version"));
        }
        let name: Vec<u8> = name
            .iter()
            .take(NAME)
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = std::str::from_utf8(name).map_err(|_| refused("its delivery has no name"))?;
        let delivery = deliveries::find(name).map_err(ChannelError::Delivery)?;
        let site = DeliverySite {
            bound,
            capacity,
            headroom,
            batch,
            sender_arms: false,
        };
        let lanes = usize::try_from(lanes).map_err(|_| refused("it has too many lanes"))?;
        let payload = u32::try_from(payload).map_err(|_| refused("its payloads are too long"))?;
        let spin = u32::try_from(spin).map_err(|_| refused("its rounds are too many"))?;
        Settings::new(delivery, site, payload, lanes, spin)
    }
}

/// The files of a shared channel.
#[cfg(not(shuttle))]
pub(super) struct Files {
    /// The memory file.
    pub(super) memory: File,
    /// Where senders ring for a receiver in an event loop.
    pub(super) bell: Bell,
}

/// What all ends of a channel in this process share.
pub(super) struct Core {
    pub(super) memory: Memory,
    pub(super) delivery: Box<dyn Delivery>,
    pub(super) spin: u32,
    /// Whether ends that wait ever sleep. If not, nobody has to be told of anything.
    pub(super) sleeps: bool,
    process: Process,
    /// Whom to wake if the receiver sleeps in [`Bed::Waker`].
    pub(super) waker: Mutex<Option<Waker>>,
    #[cfg(not(shuttle))]
    pub(super) files: Option<Files>,
    /// The bell of a channel of one process, once its receiver has asked for it.
    #[cfg(not(shuttle))]
    own_bell: OnceLock<Bell>,
}

/// Memory file's bytes that are locks, and only that: the receiver's and then those of the lanes.
#[cfg(not(shuttle))]
const RECEIVER: u64 = 0;

#[cfg(not(shuttle))]
const fn lock_of(lane: usize) -> u64 {
    1 + lane as u64
}

/// An end's claim, as long as it lives. (Ends of one process need none besides their words.)
#[derive(Debug)]
pub(super) struct Claim {
    #[cfg(not(shuttle))]
    _lock: Option<Lock>,
}

impl Core {
    /// Returns how commits and releases are ordered: against an end that announces its sleep and looks, or only against the other's look.
    #[inline]
    pub(super) fn order(&self) -> Ordering {
        match self.sleeps {
            true => Ordering::SeqCst,
            false => Ordering::Release,
        }
    }

    /// Returns whether this process made, or opened, the channel: in a child of it nothing of the channel is changed.
    pub(super) fn is_ours(&self) -> bool {
        self.process.is_this()
    }

    /// For a sender of `lane` with `pending` messages, the last of which it has just committed, to a receiver that sleeps in `bed`.
    #[cold]
    pub(super) fn consider(&self, bed: Bed, pending: u64) {
        let state = &self.memory.header().receiver.0.state;
        let tells = match self.delivery.sent(state, pending, &clock::now) {
            Tell::Now => true,
            // Senders do not set the receiver's timer.
            Tell::By(due) => state.armed().is_none_or(|armed| armed > due),
        };
        if tells {
            self.tell(bed);
        }
    }

    /// Tells the receiver, if it sleeps.
    pub(super) fn tell_sleeper(&self) {
        if let Some(bed) = self.memory.header().receiver.0.doze.asleep() {
            self.tell(bed);
        }
    }

    fn tell(&self, bed: Bed) {
        let doze = &self.memory.header().receiver.0.doze;
        if !doze.claim(bed) {
            return;
        }
        match bed {
            Bed::Futex => futex::wake(doze.word(), self.memory.is_shared()),
            Bed::Event => self.ring(),
            Bed::Waker => {
                let waker = self.waker.lock().take();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }

    #[cfg(shuttle)]
    fn ring(&self) {
        unreachable!("a receiver of the model sleeps in no event loop");
    }

    #[cfg(not(shuttle))]
    fn ring(&self) {
        if let Some(bell) = self.bell() {
            bell.ring();
        }
    }

    /// Returns where senders ring for a receiver in an event loop, if there is a bell yet.
    #[cfg(not(shuttle))]
    pub(super) fn bell(&self) -> Option<&Bell> {
        match &self.files {
            Some(files) => Some(&files.bell),
            None => self.own_bell.get(),
        }
    }

    /// As [`bell`](Self::bell), and makes it if there is none.
    #[cfg(not(shuttle))]
    pub(super) fn need_bell(&self) -> Result<&Bell, ChannelError> {
        if let Some(bell) = self.bell() {
            return Ok(bell);
        }
        let new = Bell::own()?;
        Ok(self.own_bell.get_or_init(|| new))
    }

    /// Returns whether the receiver has closed the channel or, in a shared one, its process has died.
    pub(super) fn has_no_receiver(&self) -> bool {
        match self
            .memory
            .header()
            .receiver
            .0
            .presence
            .load(Ordering::SeqCst)
        {
            presence::NEVER => false,
            presence::GONE => true,
            _ => !self.receiver_lives(),
        }
    }

    #[cfg(shuttle)]
    fn receiver_lives(&self) -> bool {
        true
    }

    #[cfg(not(shuttle))]
    fn receiver_lives(&self) -> bool {
        match &self.files {
            Some(files) => lock::is_held(files.memory.as_fd(), RECEIVER),
            None => true,
        }
    }

    /// Returns whether the sender of `lane`, which is open, lives.
    #[cfg(not(shuttle))]
    pub(super) fn sender_lives(&self, lane: usize) -> bool {
        match &self.files {
            Some(files) => lock::is_held(files.memory.as_fd(), lock_of(lane)),
            None => true,
        }
    }

    #[cfg(shuttle)]
    pub(super) fn sender_lives(&self, _lane: usize) -> bool {
        true
    }

    /// Claims a free lane; `None` if all have a sender.
    fn claim_lane(&self) -> Result<Option<(usize, Claim)>, ChannelError> {
        for lane in 0..self.memory.lanes() {
            let open = &self.memory.lane(lane).sender.0.open;
            #[cfg(not(shuttle))]
            if let Some(files) = &self.files {
                if let Some(lock) = Lock::take(files.memory.as_fd(), lock_of(lane))? {
                    // An earlier owner may have died with the word set.
                    open.store(1, Ordering::SeqCst);
                    return Ok(Some((lane, Claim { _lock: Some(lock) })));
                }
                continue;
            }
            let claimed = open.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed);
            if claimed.is_ok() {
                #[cfg(not(shuttle))]
                let claim = Claim { _lock: None };
                #[cfg(shuttle)]
                let claim = Claim {};
                return Ok(Some((lane, claim)));
            }
        }
        Ok(None)
    }

    /// Claims the receiver's place; `None` if another receiver has it.
    fn claim_receiver(&self) -> Result<Option<Claim>, ChannelError> {
        let presence = &self.memory.header().receiver.0.presence;
        #[cfg(not(shuttle))]
        if let Some(files) = &self.files {
            let Some(lock) = Lock::take(files.memory.as_fd(), RECEIVER)? else {
                return Ok(None);
            };
            presence.store(presence::HERE, Ordering::SeqCst);
            return Ok(Some(Claim { _lock: Some(lock) }));
        }
        let before = presence.swap(presence::HERE, Ordering::SeqCst);
        #[cfg(not(shuttle))]
        let claim = Claim { _lock: None };
        #[cfg(shuttle)]
        let claim = Claim {};
        Ok((before != presence::HERE).then_some(claim))
    }
}

/// A channel. Its clones, and what other processes [open](Channel::open), are the same channel.
#[derive(Clone)]
pub struct Channel(Arc<Core>);

impl Channel {
    /// Returns the description of a channel for one sender, 1024 messages without payload, and the delivery `adaptive` with a bound of 1
    /// ms.
    pub fn builder() -> ChannelBuilder {
        ChannelBuilder::default()
    }

    fn of(memory: Memory, settings: &Settings) -> Core {
        Core {
            memory,
            delivery: (settings.delivery.make)(&settings.site),
            spin: settings.spin,
            sleeps: settings.spin != u32::MAX,
            process: Process::this(),
            waker: Mutex::new(None),
            #[cfg(not(shuttle))]
            files: None,
            #[cfg(not(shuttle))]
            own_bell: OnceLock::new(),
        }
    }

    pub(super) fn in_process(settings: Settings) -> Channel {
        let memory = Memory::on_heap(settings.shape, settings.lanes);
        Channel(Arc::new(Self::of(memory, &settings)))
    }

    #[cfg(not(shuttle))]
    pub(super) fn shared(settings: Settings) -> Result<Channel, ChannelError> {
        use rustix::fs::{MemfdFlags, SealFlags};
        let size = size_of_map(settings.shape, settings.lanes);
        let size = size.filter(|size| i64::try_from(*size).is_ok());
        let size = size.ok_or(ChannelError::Limit("size"))?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create("tanada-channel", flags)?);
        file.set_len(size as u64)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        let memory = Memory::map(&file, settings.shape, settings.lanes)?;
        // New memory is 0, and so is the state of a new channel, but for moments.
        memory.header().receiver.0.state.reset();
        description::write(&settings, &memory.header().description.0);
        let bell = Bell::shared()?;
        let core = Core {
            files: Some(Files { memory: file, bell }),
            ..Self::of(memory, &settings)
        };
        Ok(Channel(Arc::new(core)))
    }

    /// Opens the shared channel in the memory file `memory`, with its `bell`: descriptors that another process has got from
    /// [`memory`](Self::memory) and [`bell`](Self::bell).
    ///
    /// # Errors
    /// If the file is no channel's, is damaged or can be cut, or cannot be mapped, or if the other descriptor is no bell.
    #[cfg(not(shuttle))]
    pub fn open(memory: OwnedFd, bell: OwnedFd) -> Result<Channel, ChannelError> {
        use std::os::unix::fs::FileExt;
        let (file, bell) = (File::from(memory), Bell::of_another(bell)?);
        // First of all: of another file, even a read may wait for whoever is behind it.
        check_file(&file)?;
        let mut bytes = [0; DESCRIPTION * 8];
        let read = file.read_exact_at(&mut bytes, 0);
        read.map_err(|_| ChannelError::Refused("it is too short"))?;
        let mut words = [0; DESCRIPTION];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
            *word = u64::from_ne_bytes(std::array::from_fn(|i| chunk[i]));
        }
        let settings = description::read(&words)?;
        let memory = Memory::map(&file, settings.shape, settings.lanes)?;
        let core = Core {
            files: Some(Files { memory: file, bell }),
            ..Self::of(memory, &settings)
        };
        Ok(Channel(Arc::new(core)))
    }

    /// Returns the memory file of a shared channel; `None` if the channel is of one process.
    #[cfg(not(shuttle))]
    pub fn memory(&self) -> Option<BorrowedFd<'_>> {
        self.0.files.as_ref().map(|files| files.memory.as_fd())
    }

    /// Returns the descriptor (a `timerfd`) by which senders of a shared channel ring for a receiver in an event loop; `None` if the
    /// channel is of one process. It is to be handed on, not to be polled: that is [`Receiver::event`].
    #[cfg(not(shuttle))]
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.0.files.as_ref().map(|files| files.bell.as_fd())
    }

    /// Returns the number of messages for which each lane has room.
    pub fn capacity(&self) -> u64 {
        self.0.memory.shape().capacity()
    }

    /// Returns the most bytes of a payload.
    pub fn payload(&self) -> u32 {
        self.0.memory.shape().payload()
    }

    /// Returns how many senders there can be at once.
    pub fn lanes(&self) -> usize {
        self.0.memory.lanes()
    }

    /// Returns whether other processes can open the channel.
    pub fn is_shared(&self) -> bool {
        self.0.memory.is_shared()
    }

    /// Returns a new sender, which has a lane for itself.
    ///
    /// # Errors
    /// If all lanes have a sender, or the lane's words are corrupt.
    pub fn sender(&self) -> Result<Sender, ChannelError> {
        let (lane, claim) = self.0.claim_lane()?.ok_or(ChannelError::Taken)?;
        Sender::new(&self.0, lane, claim)
    }

    /// Returns the receiver. It begins with the first message that an earlier receiver has not released.
    ///
    /// # Errors
    /// If there is a receiver already, or the lanes' words are corrupt.
    pub fn receiver(&self) -> Result<Receiver, ChannelError> {
        let claim = self.0.claim_receiver()?.ok_or(ChannelError::Taken)?;
        Receiver::new(&self.0, claim)
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("lanes", &self.0.memory.lanes())
            .field("shape", &self.0.memory.shape())
            .field("delivery", &self.0.delivery)
            .finish_non_exhaustive()
    }
}
