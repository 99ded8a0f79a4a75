//! Clauses 7.3.2, 7.4.2 and Annex E: sequence and picture parameter sets.

use crate::bits::BitReader;
use crate::error::{Fault, Feature};
use crate::frame::Crop;

/// `pic_order_cnt_type` and the elements that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PocType {
    /// Type 0.
    Lsb { log2_max: u32 },
    /// Type 1.
    Cycle {
        delta_always_zero: bool,
        offset_for_non_ref_pic: i32,
        offset_for_top_to_bottom_field: i32,
        offsets: Vec<i32>,
    },
    /// Type 2.
    DecodingOrder,
}

/// The limits of output reordering (E.2.1, `bitstream_restriction_flag`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Restriction {
    pub(crate) num_reorder_frames: u32,
    pub(crate) max_dec_frame_buffering: u32,
}

/// A sequence parameter set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sps {
    pub(crate) id: u8,
    pub(crate) profile: u8,
    pub(crate) constraints: u8,
    pub(crate) level: u8,
    pub(crate) log2_max_frame_num: u32,
    pub(crate) poc_type: PocType,
    pub(crate) num_ref_frames: u32,
    pub(crate) gaps_allowed: bool,
    pub(crate) mb_width: u32,
    pub(crate) mb_height: u32,
    pub(crate) crop: Crop,
    pub(crate) restriction: Option<Restriction>,
}

/// A picture parameter set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pps {
    pub(crate) id: u8,
    pub(crate) sps_id: u8,
    pub(crate) pic_order_present: bool,
    pub(crate) num_ref_idx_active: u32,
    pub(crate) weighted_pred: bool,
    pub(crate) init_qp: i32,
    /// For Cb and for Cr.
    pub(crate) chroma_qp_offset: [i32; 2],
    pub(crate) deblocking_control_present: bool,
    pub(crate) constrained_intra_pred: bool,
    pub(crate) redundant_pic_cnt_present: bool,
}

/// Returns MaxDpbMbs of Table A-1.
fn max_dpb_macroblocks(level: u8, level_1b: bool) -> u32 {
    match level {
        11 if level_1b => 396,
        0..=10 => 396,
        11 => 900,
        12 | 13 | 20 => 2_376,
        21 => 4_752,
        22 | 30 => 8_100,
        31 => 18_000,
        32 => 20_480,
        40 | 41 => 32_768,
        42 => 34_816,
        50 => 110_400,
        51 | 52 => 184_320,
        _ => 696_320,
    }
}

impl Sps {
    /// Returns 2^log2_max_frame_num.
    pub(crate) fn max_frame_num(&self) -> u32 {
        1 << self.log2_max_frame_num
    }

    /// Returns the capacity of the decoded picture buffer in frames (A.3.1, E.2.1).
    pub(crate) fn dpb_frames(&self) -> usize {
        let level_1b = self.level == 11
            && self.constraints & 0x10 != 0
            && matches!(self.profile, 66 | 77 | 88);
        let macroblocks = self.mb_width * self.mb_height;
        let by_level = (max_dpb_macroblocks(self.level, level_1b) / macroblocks).min(16);
        // The stream's own value may not exceed that of the highest level.
        let highest = max_dpb_macroblocks(62, false) / macroblocks;
        let frames = self.restriction.map_or(by_level, |restriction| {
            restriction.max_dec_frame_buffering.min(highest)
        });
        frames.max(self.num_ref_frames).max(1) as usize
    }

    /// Returns whether one coded video sequence may continue from a set to the other: all elements that matter between pictures are equal.
    pub(crate) fn continues(&self, other: &Sps) -> bool {
        let size = |sps: &Sps| (sps.mb_width, sps.mb_height, sps.crop);
        let numbers = |sps: &Sps| (sps.log2_max_frame_num, sps.num_ref_frames, sps.gaps_allowed);
        size(self) == size(other)
            && numbers(self) == numbers(other)
            && self.poc_type == other.poc_type
    }

    /// Returns the greatest number of frames that may precede a frame in decoding order and follow it in output order.
    pub(crate) fn reorder_frames(&self) -> usize {
        match (&self.poc_type, self.restriction) {
            (PocType::DecodingOrder, _) => 0,
            (_, Some(restriction)) => restriction.num_reorder_frames as usize,
            (_, None) => self.dpb_frames(),
        }
    }

    /// Parses 7.3.2.1.1 and returns the parameter set. `max_macroblocks` limits the size of a picture. A fault comes with the id if it
    /// could be read, so that the set of that id can be marked as unusable.
    pub(crate) fn parse(
        r: &mut BitReader<'_>,
        max_macroblocks: u32,
    ) -> Result<Self, (Option<u8>, Fault)> {
        let [profile, constraints, level] = [(); 3].map(|()| r.bits(8) as u8);
        let id = r.ue_max(31, "seq_parameter_set_id");
        let id = id.and_then(|id| r.check().map(|()| id as u8));
        let id = id.map_err(|fault| (None, fault))?;
        Self::parse_rest(r, max_macroblocks, [profile, constraints, level, id])
            .map_err(|fault| (Some(id), fault))
    }

    fn parse_rest(
        r: &mut BitReader<'_>,
        max_macroblocks: u32,
        [profile, constraints, level, id]: [u8; 4],
    ) -> Result<Self, Fault> {
        if matches!(
            profile,
            100 | 110 | 122 | 244 | 44 | 83 | 86 | 118 | 128 | 138 | 139 | 134 | 135
        ) {
            parse_high_profile(r)?;
        }
        let log2_max_frame_num = 4 + r.ue_max(12, "log2_max_frame_num_minus4")?;
        let poc_type = parse_poc_type(r)?;
        let num_ref_frames = r.ue_max(16, "max_num_ref_frames")?;
        let gaps_allowed = r.flag();
        let mb_width = r.ue().saturating_add(1);
        let mb_height = r.ue().saturating_add(1);
        Fault::Unsupported(Feature::Interlace).when(!r.flag())?;
        r.check()?;
        let macroblocks = u64::from(mb_width) * u64::from(mb_height);
        // Table A-1 limits width and height by sqrt(8 * MaxFS), too.
        let square = u64::from(mb_width.max(mb_height)).pow(2);
        Fault::Limit("picture size").when(
            macroblocks > u64::from(max_macroblocks) || square > 8 * u64::from(max_macroblocks),
        )?;
        let of_references = macroblocks * u64::from(num_ref_frames);
        Fault::Limit("size of all reference frames")
            .when(of_references > 5 * u64::from(max_macroblocks) && num_ref_frames > 1)?;
        let _direct_8x8_inference = r.flag();
        let crop = parse_crop(r, mb_width * 16, mb_height * 16)?;
        let restriction = if r.flag() { parse_vui(r)? } else { None };
        r.check()?;
        Ok(Sps {
            id,
            profile,
            constraints,
            level,
            log2_max_frame_num,
            poc_type,
            num_ref_frames,
            gaps_allowed,
            mb_width,
            mb_height,
            crop,
            restriction,
        })
    }
}

fn parse_high_profile(r: &mut BitReader<'_>) -> Result<(), Fault> {
    Fault::Unsupported(Feature::ChromaFormat).when(r.ue() != 1)?;
    Fault::Unsupported(Feature::BitDepth).when(r.ue() != 0 || r.ue() != 0)?;
    Fault::Unsupported(Feature::Lossless).when(r.flag())?;
    Fault::Unsupported(Feature::ScalingMatrices).when(r.flag())?;
    Ok(())
}

fn parse_poc_type(r: &mut BitReader<'_>) -> Result<PocType, Fault> {
    Ok(match r.ue_max(2, "pic_order_cnt_type")? {
        0 => PocType::Lsb {
            log2_max: 4 + r.ue_max(12, "log2_max_pic_order_cnt_lsb_minus4")?,
        },
        1 => {
            let delta_always_zero = r.flag();
            let offset_for_non_ref_pic = r.se();
            let offset_for_top_to_bottom_field = r.se();
            let count = r.ue_max(255, "num_ref_frames_in_pic_order_cnt_cycle")?;
            let offsets = (0..count).map(|_| r.se()).collect();
            PocType::Cycle {
                delta_always_zero,
                offset_for_non_ref_pic,
                offset_for_top_to_bottom_field,
                offsets,
            }
        }
        _ => PocType::DecodingOrder,
    })
}

fn parse_crop(r: &mut BitReader<'_>, width: u32, height: u32) -> Result<Crop, Fault> {
    if !r.flag() {
        return Ok(Crop::whole(width, height));
    }
    // In 4:2:0, the unit of cropping is two luma samples.
    let [left, right, top, bottom] = [(); 4].map(|()| u64::from(r.ue()) * 2);
    Fault::Syntax("the cropping rectangle is empty")
        .when(left + right >= u64::from(width) || top + bottom >= u64::from(height))?;
    Ok(Crop {
        x: left as u32,
        y: top as u32,
        width: width - (left + right) as u32,
        height: height - (top + bottom) as u32,
    })
}

/// Parses E.1.1 and returns the restriction at its end, the only part that matters for decoding.
fn parse_vui(r: &mut BitReader<'_>) -> Result<Option<Restriction>, Fault> {
    const EXTENDED_SAR: u32 = 255;
    if r.flag() && r.bits(8) == EXTENDED_SAR {
        r.bits(32);
    }
    if r.flag() {
        r.flag();
    }
    if r.flag() {
        r.bits(4);
        if r.flag() {
            r.bits(24);
        }
    }
    if r.flag() {
        r.ue();
        r.ue();
    }
    if r.flag() {
        r.bits(32);
        r.bits(32);
        r.flag();
    }
    let nal_hrd = r.flag();
    if nal_hrd {
        skip_hrd(r)?;
    }
    let vcl_hrd = r.flag();
    if vcl_hrd {
        skip_hrd(r)?;
    }
    if nal_hrd || vcl_hrd {
        r.flag();
    }
    r.flag();
    // Some encoders end the VUI too early; missing elements are treated as absent.
    if !r.more_data() || !r.flag() {
        return Ok(None);
    }
    r.flag();
    for _ in 0..4 {
        r.ue();
    }
    let num_reorder_frames = r.ue();
    let max_dec_frame_buffering = r.ue();
    if r.overrun() || max_dec_frame_buffering > 16 || num_reorder_frames > max_dec_frame_buffering {
        return Ok(None);
    }
    Ok(Some(Restriction {
        num_reorder_frames,
        max_dec_frame_buffering,
    }))
}

/// Skips E.1.2.
fn skip_hrd(r: &mut BitReader<'_>) -> Result<(), Fault> {
    let count = r.ue_max(31, "cpb_cnt_minus1")? + 1;
    r.bits(8);
    for _ in 0..count {
        r.ue();
        r.ue();
        r.flag();
    }
    r.bits(20);
    Ok(())
}

impl Pps {
    /// Parses 7.3.2.2 and returns the parameter set. A fault comes with the id as in [`Sps::parse`].
    pub(crate) fn parse(r: &mut BitReader<'_>) -> Result<Self, (Option<u8>, Fault)> {
        let id = r.ue_max(255, "pic_parameter_set_id");
        let id = id.map_err(|fault| (None, fault))? as u8;
        Self::parse_rest(r, id).map_err(|fault| (Some(id), fault))
    }

    fn parse_rest(r: &mut BitReader<'_>, id: u8) -> Result<Self, Fault> {
        let sps_id = r.ue_max(31, "seq_parameter_set_id")? as u8;
        Fault::Unsupported(Feature::Cabac).when(r.flag())?;
        let pic_order_present = r.flag();
        Fault::Unsupported(Feature::SliceGroups).when(r.ue() != 0)?;
        let num_ref_idx_active = 1 + r.ue_max(31, "num_ref_idx_l0_default_active_minus1")?;
        r.ue_max(31, "num_ref_idx_l1_default_active_minus1")?;
        let weighted_pred = r.flag();
        r.bits(2);
        let init_qp = 26 + r.se_in(-26..=25, "pic_init_qp_minus26")?;
        r.se_in(-26..=25, "pic_init_qs_minus26")?;
        let cb_offset = r.se_in(-12..=12, "chroma_qp_index_offset")?;
        let mut chroma_qp_offset = [cb_offset; 2];
        let deblocking_control_present = r.flag();
        let constrained_intra_pred = r.flag();
        let redundant_pic_cnt_present = r.flag();
        r.check()?;
        if r.more_data() {
            Fault::Unsupported(Feature::Transform8x8).when(r.flag())?;
            Fault::Unsupported(Feature::ScalingMatrices).when(r.flag())?;
            chroma_qp_offset[1] = r.se_in(-12..=12, "second_chroma_qp_index_offset")?;
            r.check()?;
        }
        Ok(Pps {
            id,
            sps_id,
            pic_order_present,
            num_ref_idx_active,
            weighted_pred,
            init_qp,
            chroma_qp_offset,
            deblocking_control_present,
            constrained_intra_pred,
            redundant_pic_cnt_present,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::nal::Rbsp;

    /// Returns a set of 64x48 with `num_ref_frames` reference frames, frame_num up to 15 and output in decoding order.
    pub(crate) fn sps(num_ref_frames: u32) -> Sps {
        Sps {
            id: 0,
            profile: 66,
            constraints: 0,
            level: 10,
            log2_max_frame_num: 4,
            poc_type: PocType::DecodingOrder,
            num_ref_frames,
            gaps_allowed: false,
            mb_width: 4,
            mb_height: 3,
            crop: Crop {
                x: 0,
                y: 0,
                width: 64,
                height: 48,
            },
            restriction: None,
        }
    }

    pub(crate) fn pps() -> Pps {
        Pps {
            id: 0,
            sps_id: 0,
            pic_order_present: false,
            num_ref_idx_active: 1,
            weighted_pred: false,
            init_qp: 26,
            chroma_qp_offset: [0; 2],
            deblocking_control_present: true,
            constrained_intra_pred: false,
            redundant_pic_cnt_present: false,
        }
    }

    /// Parses a sequence parameter set of three bytes and bits.
    fn parse(head: [u8; 3], bits: &str) -> Result<Sps, Fault> {
        let head = head.map(|byte| format!("{byte:08b}")).concat();
        let rbsp = Rbsp::from_bits(&(head + bits));
        Sps::parse(&mut BitReader::new(&rbsp), 99).map_err(|(_, fault)| fault)
    }

    #[test]
    fn a_sequence_parameter_set_with_cropping() {
        // id 0, log2_max_frame_num 4, type 2, 1 reference, no gaps, 4 by 3 macroblocks, frames only, crop right 1, bottom 2.
        let set = parse([66, 0, 10], "1 1 011 010 0 00100 011 1 1 1 1 010 1 011 0").unwrap();
        assert_eq!(
            set,
            Sps {
                crop: Crop {
                    x: 0,
                    y: 0,
                    width: 62,
                    height: 44
                },
                ..sps(1)
            }
        );
        assert_eq!((set.dpb_frames(), set.reorder_frames()), (16, 0));
    }

    #[test]
    fn what_is_not_supported_or_too_large_is_named() {
        assert_eq!(
            parse([66, 0, 10], "1 1 011 010 0 00100 011 0 1"),
            Err(Fault::Unsupported(Feature::Interlace))
        );
        assert_eq!(
            parse([100, 0, 10], "1 1 1 1"),
            Err(Fault::Unsupported(Feature::ChromaFormat))
        );
        assert_eq!(
            parse([100, 0, 10], "1 010 010 1"),
            Err(Fault::Unsupported(Feature::BitDepth))
        );
        assert_eq!(
            parse([100, 0, 10], "1 010 1 1 0 1"),
            Err(Fault::Unsupported(Feature::ScalingMatrices))
        );
        // 16 by 16 macroblocks with a limit of 99.
        let large = "1 1 011 010 0 000010000 000010000 1 1 0 0";
        assert_eq!(parse([66, 0, 10], large), Err(Fault::Limit("picture size")));
        assert!(matches!(parse([66, 0, 10], "1 1"), Err(Fault::Syntax(_))));
    }

    #[test]
    fn frames_in_the_buffer_follow_table_a_1() {
        let with = |level, constraints, size: [u32; 2]| {
            Sps {
                level,
                constraints,
                mb_width: size[0],
                mb_height: size[1],
                ..sps(1)
            }
            .dpb_frames()
        };
        assert_eq!(with(10, 0, [11, 9]), 4);
        assert_eq!(with(11, 0, [11, 9]), 9);
        assert_eq!(with(11, 0x10, [11, 9]), 4);
        assert_eq!(with(31, 0, [80, 45]), 5);
        assert_eq!(with(40, 0, [120, 68]), 4);
    }
}
