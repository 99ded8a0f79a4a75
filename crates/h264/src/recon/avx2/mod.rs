//! The innermost loops once more, for processors with AVX2. Each does what the portable function of the same name does; tests
//! compare them. Closures are not given away here, to `map` or `from_fn`: these are compiled without AVX2 and would stay calls.
//! Called by [`Kernels`](super::kernels::Kernels) only.

pub(super) mod deblock;
pub(super) mod inter;
pub(super) mod transform;
