//! A channel for any number of threads on both sides.

use super::super::carrier::program_waits;
use super::super::handle::deadline_of;
use super::super::record::On;
use super::super::waiter::{TimedOut, WaitList, wait_in_until, wait_with};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A message could not be sent: no receiver is left. The message comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// A message could not be sent at once. It comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// The channel has no room.
    Full(T),
    /// No receiver is left.
    Disconnected(T),
}

/// There is no message, and no sender is left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RecvError;

/// There is no message at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TryRecvError {
    /// There is none now.
    Empty,
    /// No sender is left.
    Disconnected,
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no receiver of the channel is left")
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "the channel is full",
            TrySendError::Disconnected(_) => "no receiver of the channel is left",
        })
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no message and no sender of the channel is left")
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryRecvError::Empty => "the channel is empty",
            TryRecvError::Disconnected => "no message and no sender of the channel is left",
        })
    }
}

impl<T> std::error::Error for SendError<T> {}
impl<T> std::error::Error for TrySendError<T> {}
impl std::error::Error for RecvError {}
impl std::error::Error for TryRecvError {}

struct Channel<T> {
    /// `None` without a bound.
    room: Option<usize>,
    state: parking_lot::Mutex<State<T>>,
}

type Locked<'a, T> = parking_lot::MutexGuard<'a, State<T>>;

struct State<T> {
    messages: VecDeque<T>,
    senders: usize,
    receivers: usize,
    /// With their messages; only if the channel is full.
    to_send: WaitList<T>,
    /// Only if there are no messages.
    to_receive: WaitList<T>,
}

impl<T> State<T> {
    fn those_that_send(&mut self) -> &mut WaitList<T> {
        &mut self.to_send
    }

    fn those_that_receive(&mut self) -> &mut WaitList<T> {
        &mut self.to_receive
    }
}

/// The sending side of a channel. The channel ends for its receivers when the last one is dropped.
pub struct Sender<T>(Arc<Channel<T>>);

/// The receiving side of a channel. What is sent when the last one has been dropped comes back.
pub struct Receiver<T>(Arc<Channel<T>>);

/// Returns a channel that holds at most `room` messages, at least one: a thread that sends more is suspended.
///
/// ```
/// use tanada_runtime::thread::{self, sync::bounded};
///
/// let (sender, receiver) = bounded(1);
/// let thread = thread::spawn(move || (0..5).for_each(|n| sender.send(n).unwrap()));
/// assert_eq!(receiver.iter().sum::<u32>(), 10);
/// thread.join().unwrap();
/// ```
pub fn bounded<T>(room: usize) -> (Sender<T>, Receiver<T>) {
    channel(Some(room.max(1)))
}

/// Returns a channel without a bound: sending never waits.
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    channel(None)
}

fn channel<T>(room: Option<usize>) -> (Sender<T>, Receiver<T>) {
    program_waits();
    let channel = Arc::new(Channel {
        room,
        state: parking_lot::Mutex::new(State {
            messages: VecDeque::new(),
            senders: 1,
            receivers: 1,
            to_send: WaitList::new(),
            to_receive: WaitList::new(),
        }),
    });
    (Sender(Arc::clone(&channel)), Receiver(channel))
}

impl<T> Sender<T> {
    /// Sends a message, and waits for room before that if there is none.
    ///
    /// # Errors
    /// If no receiver is left.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        match self.put(message) {
            Ok(()) => Ok(()),
            Err((_, TrySendError::Disconnected(message))) => Err(SendError(message)),
            Err((state, TrySendError::Full(message))) => {
                let back = wait_with(
                    Some(message),
                    state,
                    State::those_that_send,
                    (On::Send, 0),
                    || (),
                );
                // Otherwise a receiver has taken it.
                back.map_or(Ok(()), |message| Err(SendError(message)))
            }
        }
    }

    /// Sends a message if there is room.
    ///
    /// # Errors
    /// If there is none, or no receiver is left.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.put(message).map_err(|(_, error)| error)
    }

    /// As [`Sender::try_send`]. The channel is still locked if the message comes back.
    fn put(&self, message: T) -> Result<(), (Locked<'_, T>, TrySendError<T>)> {
        let mut state = self.0.state.lock();
        if state.receivers == 0 {
            return Err((state, TrySendError::Disconnected(message)));
        }
        if self.0.room.is_some_and(|room| state.messages.len() >= room) {
            return Err((state, TrySendError::Full(message)));
        }
        match state.to_receive.pop() {
            // It need not lock the channel again.
            Some(first) => {
                drop(state);
                first.pass(Some(message));
                first.now();
            }
            None => state.messages.push_back(message),
        }
        Ok(())
    }
}

impl<T> Receiver<T> {
    /// Waits for a message and returns it.
    ///
    /// # Errors
    /// If there is none, and no sender is left.
    pub fn recv(&self) -> Result<T, RecvError> {
        match self.take() {
            Ok(message) => Ok(message),
            Err((_, TryRecvError::Disconnected)) => Err(RecvError),
            Err((state, TryRecvError::Empty)) => {
                let message = wait_with(
                    None,
                    state,
                    State::those_that_receive,
                    (On::Receive, 0),
                    || (),
                );
                // Otherwise the last sender has gone.
                message.ok_or(RecvError)
            }
        }
    }

    /// As [`Receiver::recv`], for at most `most`.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if there was no message in time, or as [`Receiver::recv`].
    pub fn recv_timeout(&self, most: Duration) -> Result<T, TryRecvError> {
        match self.take() {
            Err((state, TryRecvError::Empty)) => {
                let (list, on) = (State::those_that_receive, (On::Receive, 0));
                match wait_in_until(&self.0.state, state, list, on, || (), deadline_of(most)) {
                    Ok(Some(message)) => Ok(message),
                    // The last sender has gone.
                    Ok(None) => Err(TryRecvError::Disconnected),
                    Err(TimedOut) => Err(TryRecvError::Empty),
                }
            }
            received => received.map_err(|(_, error)| error),
        }
    }

    /// Returns a message if there is one.
    ///
    /// # Errors
    /// If there is none.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.take().map_err(|(_, error)| error)
    }

    /// As [`Receiver::try_recv`]. The channel is still locked if there is no message.
    fn take(&self) -> Result<T, (Locked<'_, T>, TryRecvError)> {
        let mut state = self.0.state.lock();
        let Some(message) = state.messages.pop_front() else {
            let why = match state.senders {
                0 => TryRecvError::Disconnected,
                _ => TryRecvError::Empty,
            };
            return Err((state, why));
        };
        if let Some(first) = state.to_send.pop() {
            state.messages.extend(first.pass(None));
            drop(state);
            first.now();
        }
        Ok(message)
    }

    /// Returns the messages as they come, until no sender is left.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.recv().ok())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.state.lock().senders += 1;
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.0.state.lock().receivers += 1;
        Receiver(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.senders -= 1;
        if state.senders == 0 {
            let all = state.to_receive.take();
            drop(state);
            all.into_iter().for_each(|waiter| waiter.now());
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.receivers -= 1;
        if state.receivers == 0 {
            let all = state.to_send.take();
            let messages = std::mem::take(&mut state.messages);
            drop(state);
            all.into_iter().for_each(|waiter| waiter.now());
            // Their code runs without the lock.
            drop(messages);
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender(..)")
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver(..)")
    }
}
