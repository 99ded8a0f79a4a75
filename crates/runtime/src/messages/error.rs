//! What can go wrong with a channel.

use std::error::Error;
use std::fmt;
use tanada_policy::deliveries::UnknownDelivery;

/// Why a channel, or an end of one, could not be made.
#[non_exhaustive]
pub enum ChannelError {
    /// The delivery's name is wrong.
    Delivery(UnknownDelivery),
    /// A number is 0 or too large: this one.
    Limit(&'static str),
    /// All lanes have a sender, or there is a receiver already.
    Taken,
    /// The memory is not that of a channel: why not.
    Refused(&'static str),
    /// The system did not do what was needed for a shared channel.
    System(std::io::Error),
}

impl fmt::Debug for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChannelError::Delivery(unknown) => unknown.fmt(f),
            ChannelError::Limit(what) => write!(f, "the channel's {what} is 0 or too large"),
            ChannelError::Taken => {
                f.write_str("another thread or process has that end of the channel")
            }
            ChannelError::Refused(why) => write!(f, "the memory is not that of a channel: {why}"),
            ChannelError::System(error) => error.fmt(f),
        }
    }
}

impl Error for ChannelError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ChannelError::System(error) => Some(error),
            _ => None,
        }
    }
}

impl From<std::io::Error> for ChannelError {
    fn from(error: std::io::Error) -> Self {
        ChannelError::System(error)
    }
}

#[cfg(not(shuttle))]
impl From<rustix::io::Errno> for ChannelError {
    fn from(error: rustix::io::Errno) -> Self {
        ChannelError::System(error.into())
    }
}

/// Why a message was not sent.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// There is no room, and the call does not wait.
    Full,
    /// There was no room until the deadline.
    TimedOut,
    /// The receiver has closed the channel, or has died.
    Closed,
    /// The payload is longer than the channel allows.
    TooLong,
    /// The receiver's words cannot be: another process writes into the memory. The sender does not go on.
    Corrupt,
}

impl fmt::Debug for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Full => "the channel is full",
            SendError::TimedOut => "the channel was full until the deadline",
            SendError::Closed => "the channel has no receiver any more",
            SendError::TooLong => "the payload is longer than the channel allows",
            SendError::Corrupt => "the receiver's side of the channel's memory is corrupt",
        })
    }
}

impl Error for SendError {}

/// Why no message was received.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecvError {
    /// There is none, and the call does not wait.
    Empty,
    /// There was none until the deadline.
    TimedOut,
    /// All messages have been received, and all senders that there were have closed their lanes, or have died.
    Closed,
    /// What the sender of this lane wrote cannot be. The lane is closed for good, as far as this receiver goes; the others go on.
    Corrupt {
        /// The lane's number.
        lane: usize,
    },
}

impl fmt::Debug for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Empty => f.write_str("the channel is empty"),
            RecvError::TimedOut => f.write_str("the channel was empty until the deadline"),
            RecvError::Closed => f.write_str("the channel has no sender any more"),
            RecvError::Corrupt { lane } => {
                write!(f, "lane {lane} of the channel's memory is corrupt")
            }
        }
    }
}

impl Error for RecvError {}
