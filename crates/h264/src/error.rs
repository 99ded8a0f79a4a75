//! The errors that a stream can cause.

/// A feature of H.264 outside what this decoder supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
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

/// An error in a stream, with the byte offset at which it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The stream uses a feature that this decoder does not have.
    #[error("byte {offset}: {feature} is not supported")]
    Unsupported {
        /// The feature.
        feature: Feature,
        /// Byte offset in the stream.
        offset: u64,
    },
    /// The stream breaks the standard.
    #[error("byte {offset}: {what}")]
    Syntax {
        /// The rule that is broken.
        what: &'static str,
        /// Byte offset in the stream.
        offset: u64,
    },
    /// The stream asks for more than the [`Limits`](crate::Limits) or the highest level (6.2) of the standard allow.
    #[error("byte {offset}: {what} is beyond the limit")]
    Limit {
        /// What is too large.
        what: &'static str,
        /// Byte offset in the stream.
        offset: u64,
    },
    /// The slices of a picture do not cover it. The missing macroblocks are copied from the previous picture.
    #[error("byte {offset}: {macroblocks} macroblocks of the picture that ends here are missing")]
    Lost {
        /// The number of missing macroblocks.
        macroblocks: u32,
        /// Byte offset in the stream of the picture's end.
        offset: u64,
    },
    /// The stream ended without a decodable picture and without any other error.
    #[error("byte {offset}: the stream holds no picture")]
    NoPicture {
        /// Length of the stream in bytes.
        offset: u64,
    },
}

impl Error {
    /// Returns the byte offset in the stream at which the error was found.
    pub fn offset(&self) -> u64 {
        match *self {
            Error::Unsupported { offset, .. }
            | Error::Syntax { offset, .. }
            | Error::Limit { offset, .. }
            | Error::Lost { offset, .. }
            | Error::NoPicture { offset } => offset,
        }
    }
}

/// An error without its position in the stream: parsing code returns it, the decoder adds the offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Unsupported(Feature),
    Syntax(&'static str),
    Limit(&'static str),
}

impl Fault {
    /// Fails with this fault if `wrong`.
    #[inline(always)]
    pub(crate) fn when(self, wrong: bool) -> Result<(), Fault> {
        if wrong { Err(self) } else { Ok(()) }
    }

    /// Returns the error at byte `offset` of the stream.
    pub(crate) fn at(self, offset: u64) -> Error {
        match self {
            Fault::Unsupported(feature) => Error::Unsupported { feature, offset },
            Fault::Syntax(what) => Error::Syntax { what, offset },
            Fault::Limit(what) => Error::Limit { what, offset },
        }
    }
}
