//! Unaligned loads and stores of vector registers through checked slices and arrays: the operations of the vector kernels for which safe
//! Rust has no names.

use std::arch::x86_64::*;

/// Loads and returns `N` bytes of `from` from `at` on into the low bytes of a register; `N` is 2, 4, 8 or 16.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load<const N: usize>(from: &[u8], at: usize) -> __m128i {
    load_array::<N>(checked(from, at))
}

/// Loads an array of `N` bytes, 2, 4, 8 or 16, into the low bytes of a register.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_array<const N: usize>(from: &[u8; N]) -> __m128i {
    let from = from.as_ptr();
    // SAFETY: the array has N bytes, and each case reads N of them.
    unsafe {
        match N {
            16 => _mm_loadu_si128(from.cast()),
            8 => _mm_loadu_si64(from),
            4 => _mm_loadu_si32(from),
            2 => _mm_loadu_si16(from),
            _ => unreachable!("no register has such a part"),
        }
    }
}

/// Loads a register of 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_wide(from: &[u8; 32]) -> __m256i {
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

/// Stores the low `N` bytes of a register.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store<const N: usize>(to: &mut [u8; N], value: __m128i) {
    let to = to.as_mut_ptr();
    // SAFETY: the array has N bytes, and each case writes N of them.
    unsafe {
        match N {
            16 => _mm_storeu_si128(to.cast(), value),
            8 => _mm_storeu_si64(to, value),
            4 => _mm_storeu_si32(to, value),
            2 => _mm_storeu_si16(to, value),
            _ => unreachable!("no register has such a part"),
        }
    }
}

/// Loads sixteen numbers.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_numbers(from: &[i16; 16]) -> __m256i {
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

/// Stores sixteen numbers.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_numbers(to: &mut [i16; 16], value: __m256i) {
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

/// Returns the `N` bytes of `from` from `at` on; panics if they are not all inside.
#[inline(always)]
fn checked<const N: usize>(from: &[u8], at: usize) -> &[u8; N] {
    if from.len() < N || at > from.len() - N {
        outside();
    }
    // SAFETY: the `N` bytes from `at` on are inside of the slice, as just checked.
    unsafe { &*from.as_ptr().add(at).cast() }
}

#[cold]
#[inline(never)]
fn outside() -> ! {
    panic!("samples outside of what is held");
}
