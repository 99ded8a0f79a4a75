//! An H.264 constrained-baseline decoder with entropy decoding and reconstruction apart.
//!
//! [`Decoder`] parses an Annex B byte stream and returns one [`Job`] per picture: the syntax of all its macroblocks, and no pixel.
//! [`Job::run_stage`] then runs one of the eight [`Stage`]s of one macroblock. Stages of different macroblocks may run on different threads
//! at the same time, in any order that keeps the dependencies of [`recon`]. [`decode`] is the sequential decoder built of the same parts.
//! README.md beside this crate's sources describes how a picture moves through the modules.
//!
//! ```
//! # fn example(stream: &[u8]) -> Result<(), tanada_h264::Error> {
//! let summary = tanada_h264::decode(stream, tanada_h264::Limits::default(), |frame| {
//!     frame.visit_rows(|_row: &[u8]| { /* one cropped row of Y, then of Cb, then of Cr */ });
//! })?;
//! println!("{} pictures, {} errors", summary.pictures, summary.error_count);
//! # Ok(())
//! # }
//! ```
//!
//! Clauses of ITU-T H.264 and the modules that implement them:
//!
//! | clause | module |
//! |---|---|
//! | Annex B, 7.3.1, 7.4.1 byte stream and NAL units | `nal` |
//! | 7.2, 9.1 descriptors and Exp-Golomb codes | `bits` |
//! | 7.3.2, Annex E parameter sets | `params` |
//! | 7.3.3 slice header | `slice` |
//! | 7.3.4, 7.3.5 slice data and macroblock layer | `macroblock` |
//! | 6.4.9 to 6.4.11 neighbours | `neighbours` |
//! | 9.2 CAVLC | `cavlc` |
//! | 8.4.1 motion vector prediction | `mvpred` |
//! | 8.2.1 picture order count | `poc` |
//! | 8.2.4, 8.2.5 reference lists and marking | `dpb` |
//! | C.4 output order | `output` |
//! | 8.7.2.1 boundary strengths | `strength` |
//! | 8.3, 8.4.2, 8.5, 8.7 reconstruction | [`recon`] |
//!
//! Supported are the features of the constrained baseline profile, and explicit weighted prediction of P slices. Any other feature is an
//! [`Fault::Unsupported`] that names it. Damaged input is an [`Error`] with a byte offset; decoding continues behind it, and missing
//! macroblocks are concealed.
#![deny(unsafe_code)]

mod bits;
mod cavlc;
mod conceal;
mod decoder;
mod dpb;
mod error;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
#[allow(unsafe_code)]
mod job;
mod macroblock;
mod mvpred;
mod nal;
mod neighbours;
mod output;
mod params;
#[allow(unsafe_code)]
mod plane;
mod poc;
mod probe;
pub mod recon;
#[allow(unsafe_code)]
mod sequential;
mod slice;
mod strength;

pub use decoder::{Decoder, Limits};
pub use error::{Error, Fault, Feature};
pub use frame::{Crop, Frame};
pub use job::{Job, Stage};
pub use nal::NalStream;
pub use probe::{NoProbe, Operation, Probe, Region, locate};
pub use sequential::{Step, Summary, decode, decode_steps, decode_with};
