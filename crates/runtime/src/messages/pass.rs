//! Handing a shared channel to another process through a Unix socket.

use super::{Channel, ChannelError};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// The byte that goes with the descriptors: a socket carries none without.
const LETTER: u8 = b'T';

impl Channel {
    /// Sends the channel's descriptors through `socket`, to be [received](Self::receive_from) by another process.
    ///
    /// # Errors
    /// If the channel is of one process, or the socket fails.
    pub fn send_to(&self, socket: &UnixStream) -> Result<(), ChannelError> {
        let (Some(memory), Some(bell)) = (self.memory(), self.bell()) else {
            return Err(ChannelError::Refused("it is of one process"));
        };
        let descriptors = [memory, bell];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let letter = [IoSlice::new(&[LETTER])];
        sendmsg(socket, &letter, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Receives a channel that another process [sends](Self::send_to) through `socket`, and opens it.
    ///
    /// # Errors
    /// If what comes is no channel, as [`open`](Self::open), or the socket fails.
    pub fn receive_from(socket: &UnixStream) -> Result<Channel, ChannelError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut letter = [0];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut letter)],
            &mut ancillary,
            flags,
        )?;
        if received.bytes == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let mut descriptors = Vec::<OwnedFd>::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = message {
                descriptors.extend(some);
            }
        }
        let both: Result<[OwnedFd; 2], _> = descriptors.try_into();
        match both {
            Ok([memory, bell]) if letter == [LETTER] => Channel::open(memory, bell),
            _ => Err(ChannelError::Refused("no two descriptors came")),
        }
    }
}
