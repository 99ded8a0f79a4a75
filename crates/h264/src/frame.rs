//! A decoded picture: three planes, and the rectangle of them that is shown.

use std::io::{self, Write};

use crate::plane::Shared;
use crate::probe::{Region, frame_base};

/// The rectangle of the luma plane that is shown (7.4.2.1.1, `frame_crop_*`), in luma samples; all even.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Crop {
    /// First column shown.
    pub x: u32,
    /// First row shown.
    pub y: u32,
    /// Columns shown.
    pub width: u32,
    /// Rows shown.
    pub height: u32,
}

impl Crop {
    /// Returns the rectangle of a picture that is shown as a whole.
    pub(crate) fn whole(width: u32, height: u32) -> Crop {
        Crop {
            width,
            height,
            ..Crop::default()
        }
    }

    /// Returns this rectangle with its left side moved outwards to a multiple of 64 samples.
    ///
    /// FFmpeg shows that rectangle unless it runs with `-flags unaligned`, to keep rows aligned in memory; checksums that FFmpeg made cover
    /// the additional columns.
    pub fn with_aligned_left(self) -> Crop {
        let x = self.x & !63;
        Crop {
            x,
            width: self.width + (self.x - x),
            ..self
        }
    }
}

/// A picture in 4:2:0, 8 bits a sample, in whole macroblocks.
///
/// Pixels may be read once every stage of the [`Job`](crate::Job) that writes the frame has ended; debug builds panic if a row is read
/// while a stage writes it. The planes have no border: prediction from outside of the picture clamps coordinates.
pub struct Frame {
    pub(crate) planes: [Shared<u8>; 3],
    pub(crate) mb_width: u32,
    pub(crate) mb_height: u32,
    pub(crate) crop: Crop,
    pub(crate) buffer: u32,
    pub(crate) number: u64,
    pub(crate) poc: i32,
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frame")
            .field("number", &self.number)
            .field("poc", &self.poc)
            .field("buffer", &self.buffer)
            .field("crop", &self.crop)
            .finish_non_exhaustive()
    }
}

impl Frame {
    /// Returns a frame of zeros. `buffer` is its number in the virtual layout.
    pub(crate) fn new(mb_width: u32, mb_height: u32, buffer: u32) -> Self {
        let (w, h) = (mb_width as usize, mb_height as usize);
        let plane = |size: usize| Shared::new(w * size, h * size);
        Frame {
            planes: [16, 8, 8].map(plane),
            mb_width,
            mb_height,
            crop: Crop::whole(mb_width * 16, mb_height * 16),
            buffer,
            number: 0,
            poc: 0,
        }
    }

    /// Returns the width of the shown rectangle in luma samples.
    pub fn width(&self) -> u32 {
        self.crop.width
    }

    /// Returns the height of the shown rectangle in luma samples.
    pub fn height(&self) -> u32 {
        self.crop.height
    }

    /// Returns the rectangle that is shown.
    pub fn crop(&self) -> Crop {
        self.crop
    }

    /// Returns the number of the picture in decoding order, from 0; unique within a [`Decoder`](crate::Decoder), even if the memory of a
    /// frame is reused for a later picture.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the picture order count (8.2.1), which grows in output order until the next IDR picture.
    pub fn poc(&self) -> i32 {
        self.poc
    }

    /// Returns the bytes of one shown picture in I420.
    pub fn i420_len(&self) -> usize {
        (self.crop.width * self.crop.height / 2 * 3) as usize
    }

    /// Returns the frame's buffer in the virtual layout that a [`Probe`](crate::Probe) sees, and the bytes of all its samples.
    pub fn buffer(&self) -> (Region, u64) {
        let bytes = self.planes.iter().map(|plane| plane.len() as u64).sum();
        (Region::Frame(self.buffer), bytes)
    }

    /// Returns the address of a sample in the virtual layout that a [`Probe`](crate::Probe) sees: frames are 2^28 bytes apart; a frame has
    /// Y, Cb and Cr one behind the other without gaps. `plane` is 0, 1 or 2.
    #[inline]
    pub fn address(&self, plane: usize, x: usize, y: usize) -> u64 {
        let before: usize = self.planes[..plane].iter().map(Shared::len).sum();
        frame_base(self.buffer) + (before + y * self.planes[plane].stride() + x) as u64
    }

    /// Calls `f` with each shown row of Y, then of Cb, then of Cr.
    pub fn visit_rows(&self, f: impl FnMut(&[u8])) {
        self.visit_region(self.crop, f);
    }

    /// Calls `f` with each row of the rectangle `region` of the planes, as [`visit_rows`](Self::visit_rows). The members of `region` are
    /// even.
    ///
    /// # Panics
    /// If `region` is not inside of the planes.
    pub fn visit_region(&self, region: Crop, mut f: impl FnMut(&[u8])) {
        let Crop {
            x,
            y,
            width,
            height,
        } = region;
        for (index, plane) in self.planes.iter().enumerate() {
            let shift = u32::from(index > 0);
            let (x, w) = ((x >> shift) as usize, (width >> shift) as usize);
            for row in y >> shift..(y + height) >> shift {
                f(plane.read(x, row as usize, w, 1).row(0));
            }
        }
    }

    /// Writes the shown picture as I420.
    ///
    /// # Errors
    /// Returns an error if `out` fails; the rest of the picture is then not written.
    pub fn write_i420(&self, out: &mut impl Write) -> io::Result<()> {
        let mut result = Ok(());
        self.visit_rows(|row| {
            if result.is_ok() {
                result = out.write_all(row);
            }
        });
        result
    }
}
