//! The choice between two forms of the innermost loops: a portable one, and one with vector instructions.
//!
//! Both forms compute the same samples. The choice is made once a process; the environment variable `TANADA_H264_KERNELS=portable` selects
//! the portable form.

use std::sync::atomic::{AtomicU8, Ordering};

#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::deblock::{self, ChromaLines, LumaLines, Thresholds};
use super::inter::{self, Samples};
use super::transform;
use crate::plane::Part;

/// Proof that the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HasAvx2(());

/// A form of the innermost loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernels {
    /// Plain Rust, for each target.
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(HasAvx2),
}

/// The result of [`Kernels::chosen`] as a code; 0 before the first choice. [`AVX2`] is stored only by a thread that has the proof.
static CHOSEN: AtomicU8 = AtomicU8::new(0);
const PORTABLE: u8 = 1;
#[cfg(target_arch = "x86_64")]
const AVX2: u8 = 2;

impl Kernels {
    /// Returns all forms that this processor can run, the best one last.
    pub(crate) fn all() -> Vec<Kernels> {
        let mut all = vec![Kernels::Portable];
        all.extend(Kernels::avx2());
        all
    }

    #[cfg(target_arch = "x86_64")]
    fn avx2() -> Option<Kernels> {
        std::arch::is_x86_feature_detected!("avx2").then_some(Kernels::Avx2(HasAvx2(())))
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn avx2() -> Option<Kernels> {
        None
    }

    /// Returns the form that this process uses.
    ///
    /// Each thread would store the same byte, so no lock is needed.
    #[inline(always)]
    pub(crate) fn chosen() -> Kernels {
        match CHOSEN.load(Ordering::Relaxed) {
            PORTABLE => Kernels::Portable,
            #[cfg(target_arch = "x86_64")]
            AVX2 => Kernels::Avx2(HasAvx2(())),
            _ => Kernels::choose(),
        }
    }

    #[cold]
    fn choose() -> Kernels {
        let portable =
            std::env::var_os("TANADA_H264_KERNELS").is_some_and(|name| name == "portable");
        let best = Kernels::all().pop().unwrap_or(Kernels::Portable);
        let chosen = if portable { Kernels::Portable } else { best };
        let code = match chosen {
            Kernels::Portable => PORTABLE,
            #[cfg(target_arch = "x86_64")]
            Kernels::Avx2(_) => AVX2,
        };
        CHOSEN.store(code, Ordering::Relaxed);
        chosen
    }
}

/// Defines methods of [`Kernels`], each of which calls the function of its name in the module of the chosen form.
macro_rules! kernels {
    ($($(#[$doc:meta])* $module:ident $name:ident $([$width:ident])? ($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        impl Kernels {
            $(
                $(#[$doc])*
                #[inline(always)]
                pub(crate) fn $name $(<const $width: usize>)? (self, $($argument: $type),*) -> $result {
                    match self {
                        Kernels::Portable => $module::$name $(::<$width>)? ($($argument),*),
                        // SAFETY: a `HasAvx2` is created only if the processor has AVX2.
                        #[cfg(target_arch = "x86_64")]
                        Kernels::Avx2(_) => unsafe { avx2::$module::$name $(::<$width>)? ($($argument),*) },
                    }
                }
            )*
        }
    };
}

kernels! {
    /// Interpolates luma samples (8.4.2.2.1) of a block of `W` columns. If `W` is below 16 and `fx` is not 0, 16 samples of each row must
    /// be readable from two columns left of the block on.
    inter luma[W](to: &mut Part<'_, u8>, from: Samples<'_>, fx: usize, fy: usize) -> ();
    /// Interpolates chroma samples (8.4.2.2.2) of blocks of `W` columns of both planes, at the same position.
    inter chroma[W](
        cb: &mut Part<'_, u8>, cr: &mut Part<'_, u8>, from_cb: Samples<'_>, from_cr: Samples<'_>, fx: usize, fy: usize
    ) -> ();
    /// Filters one luma edge with strengths `bs`. Returns whether a sample may have changed.
    deblock luma_edge(lines: &mut LumaLines, bs: u16, thresholds: &Thresholds) -> bool;
    /// Filters one chroma edge with strengths `bs` of the luma edge at the same position. Returns whether a sample may have changed.
    deblock chroma_edge(lines: &mut ChromaLines, bs: u16, thresholds: &Thresholds) -> bool;
    /// Loads columns 0 to 7 of 16 rows as lines.
    deblock luma_columns(part: &mut Part<'_, u8>, lines: &mut LumaLines) -> ();
    /// Stores what [`luma_columns`](Self::luma_columns) loads.
    deblock set_luma_columns(part: &mut Part<'_, u8>, lines: &LumaLines) -> ();
    /// Filters the edge in the middle of eight columns of luma.
    deblock luma_column_edge(part: &mut Part<'_, u8>, bs: u16, thresholds: &Thresholds) -> ();
    /// Filters the edge in the middle of four columns of chroma.
    deblock chroma_column_edge(part: &mut Part<'_, u8>, bs: u16, thresholds: &Thresholds) -> ();
    /// Computes residuals from levels, in place, with the factors `scale`. Blocks whose bit in `ac` is 0 have only a DC coefficient.
    transform residuals(blocks: &mut [[i16; 16]], scale: &[i16; 16], ac: u32) -> ();
    /// Adds the residual of a block to a part of four by four samples.
    transform add_block(part: &mut Part<'_, u8>, residual: &[i16; 16]) -> ();
}

#[cfg(test)]
mod tests;
