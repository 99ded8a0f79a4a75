//! One body of a kernel, compiled for several kinds of processor: the compiler vectorises it for each, and the best is chosen when it
//! runs.
//!
//! All versions do the same arithmetic in the same order (nothing here lets the compiler fuse or reorder operations), so their results
//! are equal bit for bit.

/// A loop worth vectorising. `run` must be `#[inline(always)]`, and so must all that it calls, or it is compiled for the plain
/// processor.
pub(crate) trait Kernel {
    /// Does the work.
    fn run(self);
}

/// Runs the version of the kernel that suits this processor: on x86-64 the one for AVX2 if the processor has AVX2.
///
/// (Not with AVX-512: a load of 64 bytes that begins one element beside a cache line's edge always crosses one, so kernels that read
/// their neighbours became slower by a sixth when they were compiled for it.)
#[inline]
pub(crate) fn vectorised<K: Kernel>(kernel: K) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { with_avx2(kernel) };
    }
    kernel.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<K: Kernel>(kernel: K) {
    kernel.run();
}
