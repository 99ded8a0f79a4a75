//! The errors that a stream can cause.

/// A feature of H.264 outside what this decoder supports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Feature {
    /// Context-adaptive binary arithmetic coding (`entropy_coding_mode_flag` = 1).
    #[error("CABAC entropy coding")]
    Cabac,
    /// Fields or macroblock-adaptive frame/field coding (`frame_mbs_only_flag` = 0).
    #[error("interlaced coding (frame_mbs_only_flag = 0)")]
    Interlace,
    /// B slices.
    #[error("B slices")]
    BSlices,
    /// SP or SI slices.
    #[error("SP and SI slices")]
    SwitchingSlices,
    /// Flexible macroblock ordering (`num_slice_groups_minus1` > 0).
    #[error("flexible macroblock ordering (slice groups)")]
    SliceGroups,
    /// Redundant slices (`redundant_pic_cnt` > 0); the primary slices are decoded nevertheless.
    #[error("redundant slices")]
    RedundantSlices,
    /// Data partitioning (NAL unit types 2 to 4).
    #[error("data partitioning")]
    DataPartitioning,
    /// The 8x8 transform (`transform_8x8_mode_flag` = 1).
    #[error("the 8x8 transform")]
    Transform8x8,
    /// Scaling matrices in a sequence or picture parameter set.
    #[error("scaling matrices")]
    ScalingMatrices,
    /// A chroma format other than 4:2:0.
    #[error("a chroma format other than 4:2:0")]
    ChromaFormat,
    /// A bit depth other than 8.
    #[error("a bit depth other than 8")]
    BitDepth,
    /// Lossless coding (`qpprime_y_zero_transform_bypass_flag` = 1).
    #[error("lossless coding")]
    Lossless,
}

impl std::fmt::Debug for Feature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// An error in a stream.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {fault}")]
pub struct Error {
    /// What is wrong.
    pub fault: Fault,
    /// Byte offset in the stream at which the error was found.
    pub offset: u64,
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// What is wrong with a stream. Parsing code returns it; the decoder adds the offset.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The stream uses a feature that this decoder does not have.
    #[error("{0} is not supported")]
    Unsupported(Feature),
    /// The stream breaks this rule of the standard.
    #[error("{0}")]
    Syntax(&'static str),
    /// The stream asks for more of this than the [`Limits`](crate::Limits) or the highest level (6.2) of the standard allow.
    #[error("{0} is beyond the limit")]
    Limit(&'static str),
    /// The slices of the picture that ends at the error's offset do not cover it: this number of macroblocks is missing. They are copied
    /// from the previous picture.
    #[error("{0} macroblocks of the picture that ends here are missing")]
    Lost(u32),
    /// The stream, whose length is the error's offset, ended without a decodable picture and without any other error.
    #[error("the stream holds no picture")]
    NoPicture,
}

impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Fault {
    /// Returns this fault if `wrong`.
    #[inline(always)]
    pub(crate) fn when(self, wrong: bool) -> Result<(), Fault> {
        if wrong { Err(self) } else { Ok(()) }
    }

    /// Returns the error at byte `offset` of the stream.
    pub(crate) fn at(self, offset: u64) -> Error {
        Error {
            fault: self,
            offset,
        }
    }
}
