//! The receiver's end.

use super::channel::{Claim, Core};
use super::doze::Bed;
use super::error::{ChannelError, RecvError};
use super::lateness::Lateness;
use super::memory::load;
use super::{LOOK_FOR_DEATHS, clock, futex, presence};
use crate::parking;
use std::fmt;
use std::task::{Context, Poll};
use std::time::Instant;
use tanada_policy::Time;
use tanada_queues::sync::atomic::Ordering;
use tanada_queues::sync::{Arc, spin_loop};
use tanada_queues::{Descriptor, LaneReceiver, Padded};

#[cfg(not(shuttle))]
use {
    super::keeper::{self, Watch},
    rustix::event::epoll,
    rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create,
        timerfd_settime,
    },
    std::os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// A lane, as the receiver sees it.
struct Lane {
    end: LaneReceiver,
    /// Its words are corrupt: it counts as empty and closed.
    corrupt: bool,
}

/// What the receiver has announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// It has taken messages since it last rested, or has never rested.
    No,
    /// It has asked the delivery, which has set this timer.
    Until(Option<Time>),
}

/// Receives messages. Dropping it closes the channel for its senders, until there is another receiver.
pub struct Receiver {
    core: Arc<Core>,
    /// On cache lines of their own: the receiver writes them for each message, and the allocator puts things of other threads beside them.
    lanes: Box<[Padded<Lane>]>,
    /// The lane where the next look begins.
    at: usize,
    /// Messages taken since the last rest.
    taken: u64,
    rest: Rest,
    /// How late this receiver's timers wake it.
    lateness: Lateness,
    /// Whether the receiver has announced that it sleeps, and has not withdrawn that.
    announced: bool,
    #[cfg(not(shuttle))]
    event: Option<Event>,
    /// For the receiver of a shared channel that is awaited.
    #[cfg(not(shuttle))]
    watch: Watch,
    /// When it last looked for deaths while it was awaited.
    #[cfg(not(shuttle))]
    buried: Time,
    _claim: Claim,
}

/// What an event loop polls.
#[cfg(not(shuttle))]
#[derive(Debug)]
pub(super) struct Event {
    /// Readable if the bell or the timer is.
    both: OwnedFd,
    timer: OwnedFd,
}

impl Receiver {
    pub(super) fn new(core: &Arc<Core>, claim: Claim) -> Result<Receiver, ChannelError> {
        let memory = &core.memory;
        let lanes = (0..memory.lanes()).map(|lane| {
            let end = LaneReceiver::resume(memory.shape(), &memory.lane(lane).words)?;
            Ok(Padded(Lane {
                end,
                corrupt: false,
            }))
        });
        let lanes: Result<Box<[Padded<Lane>]>, tanada_queues::Garbage> = lanes.collect();
        let receiver = &memory.header().receiver.0;
        let Ok(lanes) = lanes else {
            receiver.presence.store(presence::NEVER, Ordering::SeqCst);
            return Err(ChannelError::Refused("a lane is corrupt"));
        };
        // An earlier receiver may have died asleep.
        receiver.doze.withdraw();
        Ok(Receiver {
            core: Arc::clone(core),
            lanes,
            at: 0,
            taken: 0,
            rest: Rest::No,
            lateness: Lateness::new(core.delivery.leeway()),
            announced: false,
            #[cfg(not(shuttle))]
            event: None,
            #[cfg(not(shuttle))]
            watch: Watch::default(),
            #[cfg(not(shuttle))]
            buried: 0,
            _claim: claim,
        })
    }

    /// Returns the next message, if there is one.
    ///
    /// Cost: about one cache line from the sender's core for a message; a look at each lane if there is none.
    ///
    /// # Errors
    /// [`RecvError::Empty`], [`RecvError::Closed`] or [`RecvError::Corrupt`].
    #[inline]
    pub fn try_recv(&mut self) -> Result<Message<'_>, RecvError> {
        if self.announced {
            self.withdraw();
        }
        let mut found = self.look()?;
        if found.is_none() {
            if !self.is_over() {
                return Err(RecvError::Empty);
            }
            // What a sender has sent before it closed its lane is there by now.
            found = self.look()?;
        }
        let (lane, descriptor) = found.ok_or(RecvError::Closed)?;
        Ok(self.message(lane, descriptor))
    }

    /// Waits for the next message, and returns it.
    ///
    /// # Errors
    /// [`RecvError::Closed`] or [`RecvError::Corrupt`].
    #[inline]
    pub fn recv(&mut self) -> Result<Message<'_>, RecvError> {
        self.recv_until(None)
    }

    /// Waits for the next message until `deadline`, and returns it.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), or [`RecvError::TimedOut`].
    pub fn recv_deadline(&mut self, deadline: Instant) -> Result<Message<'_>, RecvError> {
        self.recv_until(Some(clock::moment(deadline)))
    }

    #[inline]
    fn recv_until(&mut self, until: Option<Time>) -> Result<Message<'_>, RecvError> {
        if self.announced {
            self.withdraw();
        }
        let (lane, descriptor) = match self.look()? {
            Some(found) => found,
            None => self.wait(until)?,
        };
        Ok(self.message(lane, descriptor))
    }

    fn message(&mut self, lane: usize, descriptor: Descriptor) -> Message<'_> {
        Message {
            receiver: self,
            lane,
            descriptor,
        }
    }

    /// Returns the first message of the first lane that has one, from where the last look ended.
    #[inline]
    fn look(&mut self) -> Result<Option<(usize, Descriptor)>, RecvError> {
        for _ in 0..self.lanes.len() {
            let at = self.at;
            let lane = &mut self.lanes[at].0;
            if !lane.corrupt {
                match lane.end.peek(self.core.memory.slots(at)) {
                    Ok(Some(descriptor)) => return Ok(Some((at, descriptor))),
                    Ok(None) => {}
                    Err(_) => {
                        lane.corrupt = true;
                        return Err(RecvError::Corrupt { lane: at });
                    }
                }
            }
            self.at = if at + 1 == self.lanes.len() {
                0
            } else {
                at + 1
            };
        }
        Ok(None)
    }

    /// Returns whether no sender is left, after at least one was there.
    fn is_over(&self) -> bool {
        let memory = &self.core.memory;
        let had_sender = &memory.header().receiver.0.had_sender;
        had_sender.load(Ordering::SeqCst) != 0
            && (0..self.lanes.len()).all(|lane| {
                self.lanes[lane].0.corrupt
                    || memory.lane(lane).sender.0.open.load(Ordering::SeqCst) == 0
            })
    }

    /// As [`is_over`](Self::is_over), and nothing was sent before the last sender went.
    fn is_over_for_good(&mut self) -> Result<bool, RecvError> {
        // A sender's last message comes before its word.
        Ok(self.is_over() && self.look()?.is_none())
    }

    /// Frees the lanes of senders whose processes have died, as if these had closed them. Costs a system call for each sender of a
    /// shared channel.
    pub fn bury(&mut self) {
        for lane in 0..self.lanes.len() {
            let open = &self.core.memory.lane(lane).sender.0.open;
            let seen = open.load(Ordering::SeqCst);
            if seen != 0 && !self.core.sender_lives(lane) {
                // A sender that has come meanwhile sets it again, or has set it: then its next look at the lock shows it.
                open.store(0, Ordering::SeqCst);
                if self.core.sender_lives(lane) {
                    open.store(1, Ordering::SeqCst);
                }
            }
        }
    }

    /// Closes a lane whose sender sent what the program does not take, and returns the error that says so.
    #[cfg(not(shuttle))]
    pub(super) fn refuse(&mut self, lane: usize) -> RecvError {
        self.lanes[lane].0.corrupt = true;
        RecvError::Corrupt { lane }
    }

    fn withdraw(&mut self) {
        self.core.memory.header().receiver.0.doze.withdraw();
        self.announced = false;
        if let Rest::Until(Some(due)) = self.rest
            && self.lateness.matters()
            && let Some(late) = clock::now().checked_sub(due)
        {
            self.lateness.saw(late);
        }
    }

    fn announce(&mut self, bed: Bed) {
        self.announced = true;
        self.core.memory.header().receiver.0.doze.announce(bed);
    }

    /// Asks the delivery when to look again, unless the receiver still rests, and returns the answer.
    fn timer(&mut self) -> Option<Time> {
        let now = clock::now();
        if let Rest::Until(due) = self.rest
            && due.is_none_or(|due| now < due)
        {
            return due;
        }
        let taken = std::mem::take(&mut self.taken);
        let state = &self.core.memory.header().receiver.0.state;
        let due = state.rest_early(&*self.core.delivery, taken, now, self.lateness.usual());
        self.rest = Rest::Until(due);
        due
    }

    /// Waits for a message, after a look has found none.
    #[cold]
    fn wait(&mut self, until: Option<Time>) -> Result<(usize, Descriptor), RecvError> {
        if !self.core.sleeps {
            return self.spin_for_good(until);
        }
        let shared = self.core.memory.is_shared();
        loop {
            let due = self.timer();
            if due.is_none()
                && let Some(found) = self.spin(until)?
            {
                return Ok(found);
            }
            self.announce(Bed::Futex);
            let found = self.look();
            if !matches!(found, Ok(None)) || self.is_over() {
                self.withdraw();
                return match found? {
                    Some(found) => Ok(found),
                    // What a sender has sent before it closed its lane is there by now.
                    None => self.look()?.ok_or(RecvError::Closed),
                };
            }
            let deaths =
                shared.then(|| clock::now().saturating_add(LOOK_FOR_DEATHS.as_nanos() as u64));
            let first = [due, until, deaths].into_iter().flatten().min();
            let word = self.core.memory.header().receiver.0.doze.word();
            futex::wait(word, Bed::Futex as u32, first, shared);
            self.withdraw();
            if let Some(found) = self.look()? {
                return Ok(found);
            }
            let now = first.map_or(0, |_| clock::now());
            if deaths.is_some_and(|deaths| deaths <= now) {
                self.bury();
            }
            if until.is_some_and(|until| until <= now) {
                return Err(RecvError::TimedOut);
            }
        }
    }

    /// Looks for as many rounds as the channel says.
    fn spin(&mut self, until: Option<Time>) -> Result<Option<(usize, Descriptor)>, RecvError> {
        /// Rounds that pause, each twice as long as the one before; later ones let other threads run.
        const PAUSES: u32 = 7;
        /// From this round on, other things than messages are looked for.
        const LONG: u32 = 3;
        for round in 0..self.core.spin {
            match round {
                0..PAUSES => (0..1_u32 << round).for_each(|_| spin_loop()),
                _ => parking::yield_now(),
            }
            if let Some(found) = self.look()? {
                return Ok(Some(found));
            }
            if round >= LONG && (self.is_over() || until.is_some_and(|until| until <= clock::now()))
            {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Looks until there is something, or no sender is left, or `until` has come. Never sleeps.
    fn spin_for_good(&mut self, until: Option<Time>) -> Result<(usize, Descriptor), RecvError> {
        /// Looks between two turns for other threads.
        const LOOKS: u32 = 1024;
        let mut buried = clock::now();
        loop {
            for _ in 0..LOOKS {
                spin_loop();
                if let Some(found) = self.look()? {
                    return Ok(found);
                }
            }
            if self.is_over() {
                // What a sender has sent before it closed its lane is there by now.
                return self.look()?.ok_or(RecvError::Closed);
            }
            let now = clock::now();
            if until.is_some_and(|until| until <= now) {
                return Err(RecvError::TimedOut);
            }
            if self.core.memory.is_shared()
                && now.saturating_sub(buried) >= LOOK_FOR_DEATHS.as_nanos() as u64
            {
                buried = now;
                self.bury();
            }
            parking::yield_now();
        }
    }

    /// Returns once a message is there to be [received](Self::try_recv).
    ///
    /// # Errors
    /// [`RecvError::Closed`] or [`RecvError::Corrupt`].
    pub async fn ready(&mut self) -> Result<(), RecvError> {
        std::future::poll_fn(|context| self.poll_ready(context)).await
    }

    /// Is ready if a message is there to be [received](Self::try_recv). Otherwise the waker of `context` is called when the receiver is
    /// told, or its timer fires. A thread of this process waits for timers, and for the [`event`](Self::event) of the receiver of a shared
    /// channel, whose senders may be in other processes.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), RecvError>> {
        if self.announced {
            self.withdraw();
        }
        match self.look() {
            Ok(Some(_)) => return Poll::Ready(Ok(())),
            Ok(None) => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
        if !self.core.sleeps {
            return self.poll_awake(context);
        }
        #[cfg(not(shuttle))]
        if self.core.memory.is_shared() {
            return self.poll_event(context);
        }
        let due = self.timer();
        *self.core.waker.lock() = Some(context.waker().clone());
        self.announce(Bed::Waker);
        let ready = match self.look() {
            Ok(Some(_)) => Ok(()),
            Ok(None) => match self.is_over_for_good() {
                Ok(false) => {
                    #[cfg(not(shuttle))]
                    if let Some(due) = due {
                        keeper::wake_at(due, context.waker().clone());
                    }
                    #[cfg(shuttle)]
                    let _ = due;
                    return Poll::Pending;
                }
                // Either nothing comes any more, or a last message has come.
                Ok(true) => Err(RecvError::Closed),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        self.withdraw();
        // The waker may hold what waits for this receiver.
        *self.core.waker.lock() = None;
        Poll::Ready(ready)
    }
}

impl Receiver {
    /// The rest of [`poll_ready`](Self::poll_ready) of a receiver that never sleeps: it is asked again as soon as others had their turn.
    fn poll_awake(&mut self, context: &Context<'_>) -> Poll<Result<(), RecvError>> {
        if self.core.memory.is_shared() {
            self.bury();
        }
        if self.is_over_for_good()? {
            return Poll::Ready(Err(RecvError::Closed));
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// For event loops.
#[cfg(not(shuttle))]
impl Receiver {
    /// Returns a descriptor (of `epoll(7)`, which any event loop can poll) that is readable when the receiver that [rests](Self::rest) is
    /// told, or when its timer fires.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn event(&mut self) -> Result<BorrowedFd<'_>, ChannelError> {
        if self.event.is_none() {
            let bell = self.core.need_bell()?;
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let data = epoll::EventData::new_u64(0);
            epoll::add(&both, bell, data, epoll::EventFlags::IN)?;
            epoll::add(&both, &timer, data, epoll::EventFlags::IN)?;
            self.event = Some(Event { both, timer });
        }
        Ok(self.event.as_ref().expect("made above").both.as_fd())
    }

    /// Lets the receiver rest until its [`event`](Self::event) is readable; returns false if it must not, because a message is there or no
    /// sender is left. An event loop calls this when [`try_recv`](Self::try_recv) has found nothing, and polls the descriptor if it returns
    /// true. A receiver that [never sleeps](super::ChannelBuilder::spin) never rests. In a shared channel it also calls
    /// [`bury`](Self::bury) from time to time.
    ///
    /// # Errors
    /// [`RecvError::Corrupt`].
    ///
    /// # Panics
    /// If `event` was never called.
    pub fn rest(&mut self) -> Result<bool, RecvError> {
        if !self.core.sleeps {
            return Ok(false);
        }
        let due = self.timer();
        let event = self.event.as_ref().expect("`event` comes before `rest`");
        // Both are silent again. The second fails if the timer was so before.
        self.core.bell().expect("made by `event`").silence();
        let _ = rustix::io::read(&event.timer, &mut [0_u8; 8]);
        let zero = clock::timespec(0);
        let time = Itimerspec {
            it_interval: zero,
            // A timer at 0 would be none.
            it_value: due.map_or(zero, |due| clock::timespec(due.max(1))),
        };
        // It fails for times that are none, of which the kernel's clock knows nothing.
        let _ = timerfd_settime(&event.timer, TimerfdTimerFlags::ABSTIME, &time);
        self.announce(Bed::Event);
        let found = self.look();
        if matches!(found, Ok(None)) && !self.is_over() {
            return Ok(true);
        }
        self.withdraw();
        found.map(|_| false)
    }
}

#[cfg(not(shuttle))]
impl Receiver {
    /// The rest of [`poll_ready`](Self::poll_ready) for a shared channel, in which nothing was found: waits by way of the descriptor.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Result<(), RecvError>> {
        /// When a receiver looks again for which the system has no descriptor.
        const LATER: Time = 1_000_000;
        let now = clock::now();
        if now.saturating_sub(self.buried) >= LOOK_FOR_DEATHS.as_nanos() as Time / 2 {
            self.buried = now;
            self.bury();
        }
        let waker = context.waker().clone();
        if self.event().is_err() {
            keeper::wake_at(now + LATER, waker);
            return Poll::Pending;
        }
        if self.rest()? {
            let event = self.event.as_ref().expect("made above");
            if self.watch.wait(event.both.as_fd(), waker.clone()).is_err() {
                keeper::wake_at(now + LATER, waker);
            }
            return Poll::Pending;
        }
        match self.is_over_for_good()? {
            true => Poll::Ready(Err(RecvError::Closed)),
            // A message has come, or a sender: the next look shows which.
            false => {
                waker.wake();
                Poll::Pending
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if !self.core.is_ours() {
            return;
        }
        let memory = &self.core.memory;
        let receiver = &memory.header().receiver.0;
        receiver.presence.store(presence::GONE, Ordering::SeqCst);
        receiver.doze.withdraw();
        *self.core.waker.lock() = None;
        for lane in 0..self.lanes.len() {
            wake_sender(&self.core, lane);
        }
    }
}

/// Wakes the sender of `lane` if it waits for room.
#[inline]
fn wake_sender(core: &Core, lane: usize) {
    let waits = &core.memory.lane(lane).sender.0.waits;
    if waits.load(Ordering::SeqCst) != 0 && waits.swap(0, Ordering::SeqCst) != 0 {
        futex::wake(waits, core.memory.is_shared());
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("lanes", &self.lanes.len())
            .field("rest", &self.rest)
            .finish_non_exhaustive()
    }
}

/// A message, in its slot. Dropping it releases the slot to the sender.
pub struct Message<'a> {
    receiver: &'a mut Receiver,
    lane: usize,
    descriptor: Descriptor,
}

impl Message<'_> {
    /// Returns the destination.
    #[inline]
    pub fn to(&self) -> u32 {
        self.descriptor.to
    }

    /// Returns the value.
    #[inline]
    pub fn value(&self) -> u64 {
        self.descriptor.value
    }

    /// Returns the number of bytes of the payload.
    #[inline]
    pub fn len(&self) -> usize {
        self.descriptor.length as usize
    }

    /// Returns whether there is no payload.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.descriptor.length == 0
    }

    /// Returns the number of the lane, and so of the sender.
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// Copies the first bytes of the payload to `bytes`, as many as fit, and returns their number.
    ///
    /// The bytes are copied, and not lent, because another process may change them at any time. So a program checks the copy.
    pub fn copy_to(&self, bytes: &mut [u8]) -> usize {
        let length = self.len().min(bytes.len());
        let lane = &self.receiver.lanes[self.lane].0;
        let slots = self.receiver.core.memory.slots(self.lane);
        load(lane.end.payload(slots), &mut bytes[..length]);
        length
    }

    /// Returns a copy of the payload.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        self.copy_to(&mut bytes);
        bytes
    }

    /// Keeps the message in its slot: it is the next one again. What a receiver does that cannot handle a message now.
    pub fn put_back(self) {
        std::mem::forget(self);
    }
}

impl Drop for Message<'_> {
    #[inline]
    fn drop(&mut self) {
        let receiver = &mut *self.receiver;
        let memory = &receiver.core.memory;
        receiver.lanes[self.lane]
            .0
            .end
            .release(&memory.lane(self.lane).words, receiver.core.order());
        receiver.taken += 1;
        receiver.rest = Rest::No;
        // The next look begins at the next lane, so that no lane waits for ever.
        receiver.at = if self.lane + 1 == receiver.lanes.len() {
            0
        } else {
            self.lane + 1
        };
        if receiver.core.sleeps {
            wake_sender(&receiver.core, self.lane);
        }
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("to", &self.to())
            .field("value", &self.value())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
