//! Programs cut into tasks: H.264 decoding.
