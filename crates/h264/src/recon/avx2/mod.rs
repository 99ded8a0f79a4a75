//! The innermost loops for processors with AVX2. Each function computes the same as the portable function of the same name, which tests
//! verify. Closures are not passed to `map` or `from_fn` here: those functions are compiled without AVX2, so the calls would not be
//! inlined. Only [`Kernels`](super::kernels::Kernels) calls these functions.

pub(super) mod deblock;
pub(super) mod inter;
pub(super) mod transform;
