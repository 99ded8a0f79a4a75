//! An H.264 constrained-baseline decoder whose entropy decoding and reconstruction are apart.
