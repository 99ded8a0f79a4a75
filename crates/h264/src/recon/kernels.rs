//! Which form of the innermost loops runs: the portable one, or one for vector instructions that this processor has.
//!
//! All forms give the same samples. The choice is made once in a process; `TANADA_H264_KERNELS=portable` in the environment makes it
//! the portable one.

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
    /// Plain Rust, for whatever the crate is compiled for.
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(HasAvx2),
}

/// What [`Kernels::chosen`] gives, as a code; [`AVX2`] is stored only from a form that proves it. 0 where nothing was chosen yet.
static CHOSEN: AtomicU8 = AtomicU8::new(0);
const PORTABLE: u8 = 1;
#[cfg(target_arch = "x86_64")]
const AVX2: u8 = 2;

impl Kernels {
    /// All forms that this processor can run, the best one last.
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

    /// The form that this process uses.
    ///
    /// The choice is one byte that every thread would set to the same value, so no lock orders who sets it.
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

    /// Luma sample interpolation (8.4.2.2.1) of a block of W columns;
    /// where W is below 16 and `fx` is not 0, 16 samples of each row can be read from two columns left of the block on.
    #[inline(always)]
    pub(crate) fn luma<const W: usize>(
        self,
        to: &mut Part<'_, u8>,
        from: Samples<'_>,
        fx: usize,
        fy: usize,
    ) {
        match self {
            Kernels::Portable => inter::luma::<W>(to, from, fx, fy),
            // SAFETY: `HasAvx2` is made only where the processor has it.
            #[cfg(target_arch = "x86_64")]
            Kernels::Avx2(_) => unsafe { avx2::inter::luma::<W>(to, from, fx, fy) },
        }
    }

    /// Chroma sample interpolation (8.4.2.2.2) of blocks of W columns of both planes, which lie at the same place.
    #[inline(always)]
    pub(crate) fn chroma<const W: usize>(
        self,
        cb: &mut Part<'_, u8>,
        cr: &mut Part<'_, u8>,
        from_cb: Samples<'_>,
        from_cr: Samples<'_>,
        fx: usize,
        fy: usize,
    ) {
        match self {
            Kernels::Portable => inter::chroma::<W>(cb, cr, from_cb, from_cr, fx, fy),
            // SAFETY: as in `luma`.
            #[cfg(target_arch = "x86_64")]
            Kernels::Avx2(_) => unsafe {
                avx2::inter::chroma::<W>(cb, cr, from_cb, from_cr, fx, fy)
            },
        }
    }

    /// Filters one luma edge with strengths `bs`; says whether it may have changed anything.
    #[inline(always)]
    pub(crate) fn luma_edge(self, lines: &mut LumaLines, bs: u16, thresholds: &Thresholds) -> bool {
        match self {
            Kernels::Portable => deblock::luma_edge(lines, bs, thresholds),
            // SAFETY: as in `luma`.
            #[cfg(target_arch = "x86_64")]
            Kernels::Avx2(_) => unsafe { avx2::deblock::luma_edge(lines, bs, thresholds) },
        }
    }

    /// Filters one chroma edge with strengths `bs` of the luma edge in its place; says whether it may have changed anything.
    #[inline(always)]
    pub(crate) fn chroma_edge(
        self,
        lines: &mut ChromaLines,
        bs: u16,
        thresholds: &Thresholds,
    ) -> bool {
        match self {
            Kernels::Portable => deblock::chroma_edge(lines, bs, thresholds),
            // SAFETY: as in `luma`.
            #[cfg(target_arch = "x86_64")]
            Kernels::Avx2(_) => unsafe { avx2::deblock::chroma_edge(lines, bs, thresholds) },
        }
    }

    /// Columns 0 to 7 of 16 rows as lines.
    #[inline(always)]
    pub(crate) fn luma_columns(self, part: &mut Part<'_, u8>, lines: &mut LumaLines) {
        match self {
            Kernels::Portable => deblock::luma_columns(part, lines),
            // SAFETY: as in `luma`.
            #[cfg(target_arch = "x86_64")]
            Kernels::Avx2(_) => unsafe { avx2::deblock::luma_columns(part, lines) },
        }
    }

    /// The inverse of [`luma_columns`](Self::luma_columns).
    #[inline(always)]
    pub(crate) fn set_luma_columns(self, part: &mut Part<'_, u8>, lines: &LumaLines) {
        match self {
            Kernels::Portable => deblock::set_luma_columns(part, lines),
            // SAFETY: as in `luma`.
            #[cfg(target_arch = "x86_64")]
            Kernels::Avx2(_) => unsafe { avx2::deblock::set_luma_columns(part, lines) },
        }
    }

    /// Filters the edge in the middle of eight columns of luma.
    #[inline(always)]
    pub(crate) fn luma_column_edge(
        self,
        part: &mut Part<'_, u8>,
        bs: u16,
        thresholds: &Thresholds,
    ) {
        match self {
            Kernels::Portable => deblock::luma_column_edge(part, bs, thresholds),
            // SAFETY: as in `luma`.
            #[cfg(target_arch = "x86_64")]
            Kernels::Avx2(_) => unsafe { avx2::deblock::luma_column_edge(part, bs, thresholds) },
        }
    }

    /// Filters the edge in the middle of four columns of chroma.
    #[inline(always)]
    pub(crate) fn chroma_column_edge(
        self,
        part: &mut Part<'_, u8>,
        bs: u16,
        thresholds: &Thresholds,
    ) {
        match self {
            Kernels::Portable => deblock::chroma_column_edge(part, bs, thresholds),
            // SAFETY: as in `luma`.
            #[cfg(target_arch = "x86_64")]
            Kernels::Avx2(_) => unsafe { avx2::deblock::chroma_column_edge(part, bs, thresholds) },
        }
    }

    /// Makes residuals of levels, in place, with factors `scale`. Blocks whose bit is not set in `ac` have no coefficient but DC.
    #[inline(always)]
    pub(crate) fn residuals(self, blocks: &mut [[i16; 16]], scale: &[i16; 16], ac: u32) {
        match self {
            Kernels::Portable => transform::residuals(blocks, scale, ac),
            // SAFETY: as in `luma`.
            #[cfg(target_arch = "x86_64")]
            Kernels::Avx2(_) => unsafe { avx2::transform::residuals(blocks, scale, ac) },
        }
    }

    /// Adds the residual of a block to a part of four by four samples.
    #[inline(always)]
    pub(crate) fn add_block(self, part: &mut Part<'_, u8>, residual: &[i16; 16]) {
        match self {
            Kernels::Portable => transform::add_block(part, residual),
            // SAFETY: as in `luma`.
            #[cfg(target_arch = "x86_64")]
            Kernels::Avx2(_) => unsafe { avx2::transform::add_block(part, residual) },
        }
    }
}

#[cfg(test)]
mod tests;
