//! Channels of one type: values go in, and come out.

use super::clock;
use super::sender::Sender;
use super::{Channel, ChannelBuilder, ChannelError, Message, Receiver, RecvError, SendError};
use crate::Scope;
use parking_lot::Mutex;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;
use tanada_policy::Time;
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

/// A type whose values may go to another process: they are bytes without padding and without pointers, and bytes that are no value are
/// found. `#[derive(zerocopy::IntoBytes, zerocopy::TryFromBytes, zerocopy::Immutable)]` on a `#[repr(C)]` type makes it one.
pub trait Plain: TryFromBytes + IntoBytes + Immutable + Send {}

impl<T: TryFromBytes + IntoBytes + Immutable + Send> Plain for T {}

/// The values of a lane, by slot.
type Slots<T> = Box<[Mutex<Option<T>>]>;

/// Where values are while they are in the channel.
enum Form<T> {
    /// In this process, beside the lanes: by lane and slot. The lane's words say whose turn a slot is, so that no lock is ever waited
    /// for.
    Beside(Arc<[Slots<T>]>),
    /// In the slots of lanes, as payload.
    Within {
        write: fn(&T) -> &[u8],
        read: fn(&[u8]) -> Option<T>,
    },
}

impl<T> Clone for Form<T> {
    fn clone(&self) -> Self {
        match self {
            Form::Beside(slots) => Form::Beside(Arc::clone(slots)),
            Form::Within { write, read } => Form::Within {
                write: *write,
                read: *read,
            },
        }
    }
}

/// A channel of values of type `T`: [`ChannelBuilder::build_typed`], [`ChannelBuilder::build_shared_typed`].
///
/// ```
/// use tanada_runtime::messages::Channel;
///
/// let channel = Channel::builder().build_typed::<String>()?;
/// let (mut sender, receiver) = (channel.sender()?, channel.receiver()?);
/// let sends = std::thread::spawn(move || {
///     for day in ["Monday", "Tuesday"] {
///         sender.send(day.to_owned()).expect("the receiver is there");
///     }
/// });
/// assert_eq!(receiver.collect::<Vec<_>>(), ["Monday", "Tuesday"]);
/// # sends.join().unwrap();
/// # Ok::<(), tanada_runtime::messages::ChannelError>(())
/// ```
pub struct Typed<T> {
    channel: Channel,
    form: Form<T>,
}

impl<T> Clone for Typed<T> {
    fn clone(&self) -> Self {
        Typed {
            channel: self.channel.clone(),
            form: self.form.clone(),
        }
    }
}

impl<T> Typed<T> {
    /// Returns a new sender, which has a lane for itself.
    ///
    /// # Errors
    /// As [`Channel::sender`].
    pub fn sender(&self) -> Result<TypedSender<T>, ChannelError> {
        Ok(TypedSender {
            sender: self.channel.sender()?,
            form: self.form.clone(),
        })
    }

    /// Returns the receiver.
    ///
    /// # Errors
    /// As [`Channel::receiver`].
    pub fn receiver(&self) -> Result<TypedReceiver<T>, ChannelError> {
        Ok(TypedReceiver {
            receiver: self.channel.receiver()?,
            opener: Opener {
                form: self.form.clone(),
                bytes: vec![0; size_of::<T>()].into(),
                values: PhantomData,
            },
        })
    }

    /// Returns the channel without its type, to hand it to another process ([`Channel::send_to`]).
    pub fn channel(&self) -> &Channel {
        &self.channel
    }
}

impl<T: Plain> Typed<T> {
    /// Takes `channel` as one of values of type `T`, which is what it was built for, in this process or in the one that it comes from.
    /// Both must have the same type, with the same layout (`#[repr(C)]`): only its size is compared.
    ///
    /// # Errors
    /// [`ChannelError::Refused`] if payloads of the channel have another size, or it is of one process.
    pub fn of(channel: Channel) -> Result<Typed<T>, ChannelError> {
        if channel.payload() as usize != size_of::<T>() {
            return Err(ChannelError::Refused("its messages have another size"));
        }
        // Values of a typed channel of this process are beside its lanes, out of reach of this one.
        if !channel.is_shared() {
            return Err(ChannelError::Refused("it is of one process"));
        }
        let form = Form::Within {
            write: |value: &T| value.as_bytes(),
            read: |bytes| T::try_read_from_bytes(bytes).ok(),
        };
        Ok(Typed { channel, form })
    }
}

impl ChannelBuilder {
    /// Returns a channel of values for the threads of this process. What is in it when it goes is dropped with it.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_typed<T: Send>(self) -> Result<Typed<T>, ChannelError> {
        let channel = self.payload(0).build()?;
        let slots = || (0..channel.capacity()).map(|_| Mutex::new(None)).collect();
        let form = Form::Beside((0..channel.lanes()).map(|_| slots()).collect());
        Ok(Typed { channel, form })
    }

    /// Returns a channel of values that other processes can open ([`Typed::of`]).
    ///
    /// # Errors
    /// As [`build_shared`](Self::build_shared); [`ChannelError::Limit`] also if the type is too large.
    pub fn build_shared_typed<T: Plain>(self) -> Result<Typed<T>, ChannelError> {
        let bytes = u32::try_from(size_of::<T>()).map_err(|_| ChannelError::Limit("payload"))?;
        Typed::of(self.payload(bytes).build_shared()?)
    }
}

/// A value that was not sent, and why.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Unsent<T> {
    /// The value.
    pub value: T,
    /// Why it was not sent.
    pub error: SendError,
}

impl<T> fmt::Debug for Unsent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<T> fmt::Display for Unsent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value was not sent: {}", self.error)
    }
}

impl<T> std::error::Error for Unsent<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Sends values. Dropping it frees its lane.
pub struct TypedSender<T> {
    sender: Sender,
    form: Form<T>,
}

impl<T> TypedSender<T> {
    /// Sends a value, unless there is no room.
    ///
    /// # Errors
    /// As [`Sender::try_send`].
    #[inline]
    pub fn try_send(&mut self, value: T) -> Result<(), Unsent<T>> {
        let lane = self.sender.lane();
        let slot = self.sender.sent();
        let mut draft = match self.sender.draft() {
            Ok(draft) => draft,
            Err(error) => return Err(Unsent { value, error }),
        };
        match &self.form {
            Form::Beside(slots) => {
                let slots = &slots[lane];
                let slot = slot as usize & (slots.len() - 1);
                *slots[slot].lock() = Some(value);
                draft.send(0, slot as u64);
            }
            Form::Within { write, .. } => {
                if let Err(error) = draft.write(0, write(&value)) {
                    return Err(Unsent { value, error });
                }
                draft.send(0, 0);
            }
        }
        Ok(())
    }

    /// Sends a value, and waits for room until the receiver has taken one.
    ///
    /// # Errors
    /// As [`Sender::send`].
    #[inline]
    pub fn send(&mut self, value: T) -> Result<(), Unsent<T>> {
        self.send_until(value, None)
    }

    /// Sends a value, and waits for room until `deadline`.
    ///
    /// # Errors
    /// As [`Sender::send_deadline`].
    pub fn send_deadline(&mut self, value: T, deadline: Instant) -> Result<(), Unsent<T>> {
        self.send_until(value, Some(clock::moment(deadline)))
    }

    fn send_until(&mut self, mut value: T, until: Option<Time>) -> Result<(), Unsent<T>> {
        loop {
            match self.try_send(value) {
                Err(Unsent {
                    value: back,
                    error: SendError::Full,
                }) => value = back,
                other => return other,
            }
            if let Err(error) = self.sender.wait_for_room(until) {
                return Err(Unsent { value, error });
            }
        }
    }

    /// Returns whether the receiver has closed the channel, or has died.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

impl<T> fmt::Debug for TypedSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.sender, f)
    }
}

/// Gets values out of messages.
struct Opener<T> {
    form: Form<T>,
    bytes: Box<[u8]>,
    values: PhantomData<fn() -> T>,
}

impl<T> Opener<T> {
    /// Returns the value of a message; `None` if it has none.
    fn open(&mut self, message: &Message<'_>) -> Option<T> {
        match &self.form {
            Form::Beside(slots) => slots[message.lane()]
                .get(message.value() as usize)?
                .lock()
                .take(),
            Form::Within { read, .. } => {
                let length = message.copy_to(&mut self.bytes);
                read(&self.bytes[..length])
            }
        }
    }
}

/// Receives values; as an iterator, until no sender is left. Dropping it closes the channel for its senders.
pub struct TypedReceiver<T> {
    receiver: Receiver,
    opener: Opener<T>,
}

impl<T> TypedReceiver<T> {
    /// Returns the next value, if there is one.
    ///
    /// # Errors
    /// As [`Receiver::try_recv`]. [`RecvError::Corrupt`] also if what came is no `T`.
    #[inline]
    pub fn try_recv(&mut self) -> Result<T, RecvError> {
        let message = self.receiver.try_recv()?;
        let lane = message.lane();
        let value = self.opener.open(&message);
        drop(message);
        value.ok_or_else(|| self.receiver.refuse(lane))
    }

    /// Waits for the next value, and returns it.
    ///
    /// # Errors
    /// As [`Receiver::recv`]. [`RecvError::Corrupt`] also if what came is no `T`.
    #[inline]
    pub fn recv(&mut self) -> Result<T, RecvError> {
        let message = self.receiver.recv()?;
        let lane = message.lane();
        let value = self.opener.open(&message);
        drop(message);
        value.ok_or_else(|| self.receiver.refuse(lane))
    }

    /// Waits for the next value until `deadline`, and returns it.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), or [`RecvError::TimedOut`].
    pub fn recv_deadline(&mut self, deadline: Instant) -> Result<T, RecvError> {
        let message = self.receiver.recv_deadline(deadline)?;
        let lane = message.lane();
        let value = self.opener.open(&message);
        drop(message);
        value.ok_or_else(|| self.receiver.refuse(lane))
    }

    /// Returns the next value once it is there, in any executor.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn recv_async(&mut self) -> Result<T, RecvError> {
        loop {
            match self.try_recv() {
                Err(RecvError::Empty) => self.receiver.ready().await?,
                other => return other,
            }
        }
    }

    /// Handles all values by tasks of the scope's pool, as [`Receiver::serve`] does messages. What is no `T` is left out.
    pub fn serve<'scope, F>(self, scope: &Scope<'scope>, name: &'static str, mut handle: F)
    where
        T: Send + 'scope,
        F: FnMut(T) + Send + 'scope,
    {
        let mut opener = self.opener;
        self.receiver.serve(scope, name, move |message| {
            let value = opener.open(&message);
            drop(message);
            if let Some(value) = value {
                handle(value);
            }
        });
    }

    /// Returns the receiver without its type, for its [`event`](Receiver::event), [`rest`](Receiver::rest) and
    /// [`poll_ready`](Receiver::poll_ready). Values of messages that it receives are lost.
    pub fn untyped(&mut self) -> &mut Receiver {
        &mut self.receiver
    }
}

impl<T> Iterator for TypedReceiver<T> {
    type Item = T;

    /// Waits for the next value. Corrupt lanes are passed over.
    fn next(&mut self) -> Option<T> {
        loop {
            match self.recv() {
                Ok(value) => return Some(value),
                Err(RecvError::Corrupt { .. }) => {}
                Err(_) => return None,
            }
        }
    }
}

impl<T> fmt::Debug for TypedReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.receiver, f)
    }
}

impl<T> fmt::Debug for Typed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.channel, f)
    }
}
