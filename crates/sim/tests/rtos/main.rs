//! The model of real-time kernels: rules by hand, against a second implementation, and the receiver of paper 3.

mod by_hand;
mod random;
mod receiver;
mod second;
