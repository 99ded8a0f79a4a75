//! Clauses 7.3.3 and 7.4.3: the slice header.

use smallvec::{SmallVec, smallvec};

use crate::bits::BitReader;
use crate::error::{Fault, Feature};
use crate::job::{Weight, Weights};
use crate::params::{PocType, Pps, Sps};

/// Steps of a reference list's modification: at most one for each entry, and a list has at most 32 entries.
pub(crate) type Modifications = SmallVec<[Modification; 32]>;
/// Memory management control operations. More would have no effect: there are at most 16 frames with two operations each, and the general
/// ones.
pub(crate) type Operations = SmallVec<[Mmco; 66]>;

/// One step of reference list modification (7.3.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Modification {
    /// Subtract this from the predicted picture number.
    Subtract(u32),
    /// Add this to the predicted picture number.
    Add(u32),
    /// `long_term_pic_num`.
    LongTerm(u32),
}

/// One memory management control operation (7.3.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mmco {
    /// 1: the short-term picture with this `difference_of_pic_nums_minus1` becomes unused.
    ForgetShort(u32),
    /// 2: the long-term picture with this `long_term_pic_num` becomes unused.
    ForgetLong(u32),
    /// 3: the short-term picture with this `difference_of_pic_nums_minus1` becomes a long-term one with this `long_term_frame_idx`.
    MakeLong(u32, u32),
    /// 4: long-term indices from this number on (`max_long_term_frame_idx_plus1`) become unused.
    LimitLong(u32),
    /// 5: all pictures become unused.
    ForgetAll,
    /// 6: the current picture becomes a long-term one with this `long_term_frame_idx`.
    CurrentLong(u32),
}

/// `dec_ref_pic_marking`.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation a picture"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Marking {
    /// An IDR picture, and whether it becomes a long-term one.
    Idr {
        long_term: bool,
    },
    SlidingWindow,
    Adaptive(Operations),
}

/// A slice header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SliceHeader {
    pub(crate) nal_ref_idc: u8,
    pub(crate) idr: bool,
    pub(crate) first_mb: u32,
    /// Whether the slice is a P slice; otherwise it is an I slice.
    pub(crate) predicted: bool,
    pub(crate) pps_id: u8,
    pub(crate) frame_num: u32,
    pub(crate) idr_pic_id: u32,
    pub(crate) poc_lsb: u32,
    pub(crate) delta_poc_bottom: i32,
    pub(crate) delta_poc: [i32; 2],
    pub(crate) redundant_pic_cnt: u32,
    pub(crate) num_ref_idx_active: u32,
    pub(crate) modifications: Modifications,
    pub(crate) weights: Option<Weights>,
    pub(crate) marking: Marking,
    pub(crate) qp: i32,
    pub(crate) deblocking: u8,
    pub(crate) alpha_offset: i8,
    pub(crate) beta_offset: i8,
}

/// The first three elements, which name the picture parameter set that the rest depends on.
pub(crate) struct SliceStart {
    first_mb: u32,
    slice_type: u32,
    pub(crate) pps_id: u8,
}

impl SliceStart {
    pub(crate) fn parse(r: &mut BitReader<'_>) -> Result<Self, Fault> {
        let first_mb = r.ue();
        let slice_type = r.ue_max(9, "slice_type")?;
        let pps_id = r.ue_max(255, "pic_parameter_set_id")? as u8;
        r.check()?;
        Ok(SliceStart {
            first_mb,
            slice_type,
            pps_id,
        })
    }
}

impl SliceHeader {
    /// Parses the elements behind `start` and returns the header; `nal_header` is the first byte of the NAL unit.
    pub(crate) fn parse(
        r: &mut BitReader<'_>,
        start: SliceStart,
        nal_header: u8,
        sps: &Sps,
        pps: &Pps,
    ) -> Result<Self, Fault> {
        let nal_ref_idc = nal_header >> 5 & 3;
        let idr = nal_header & 31 == 5;
        let predicted = match start.slice_type % 5 {
            0 => true,
            1 => return Err(Fault::Unsupported(Feature::BSlices)),
            2 => false,
            _ => return Err(Fault::Unsupported(Feature::SwitchingSlices)),
        };
        Fault::Syntax("a P slice in an IDR picture").when(predicted && idr)?;
        Fault::Syntax("first_mb_in_slice is outside the picture")
            .when(start.first_mb >= sps.mb_width * sps.mb_height)?;
        let frame_num = r.bits(sps.log2_max_frame_num);
        Fault::Syntax("frame_num of an IDR picture is not 0").when(idr && frame_num != 0)?;
        let idr_pic_id = match idr {
            true => r.ue_max(65_535, "idr_pic_id")?,
            false => 0,
        };
        let (poc_lsb, delta_poc_bottom, delta_poc) = parse_order_count(r, sps, pps);
        let redundant_pic_cnt = match pps.redundant_pic_cnt_present {
            true => r.ue_max(127, "redundant_pic_cnt")?,
            false => 0,
        };
        let (num_ref_idx_active, modifications, weights) = match predicted {
            true => parse_references(r, pps)?,
            false => Default::default(),
        };
        let marking = match nal_ref_idc {
            0 => Marking::SlidingWindow,
            _ => parse_marking(r, idr)?,
        };
        let qp = pps.init_qp + r.se_in(-51..=51, "slice_qp_delta")?;
        Fault::Syntax("the quantiser of the slice is out of range")
            .when(!(0..=51).contains(&qp))?;
        let (deblocking, alpha_offset, beta_offset) = parse_deblocking(r, pps)?;
        r.check()?;
        Ok(SliceHeader {
            nal_ref_idc,
            idr,
            first_mb: start.first_mb,
            predicted,
            pps_id: start.pps_id,
            frame_num,
            idr_pic_id,
            poc_lsb,
            delta_poc_bottom,
            delta_poc,
            redundant_pic_cnt,
            num_ref_idx_active,
            modifications,
            weights,
            marking,
            qp,
            deblocking,
            alpha_offset,
            beta_offset,
        })
    }

    /// Returns whether this slice begins a new picture behind the picture of `previous` (7.4.1.2.4).
    ///
    /// The standard also compares pic_parameter_set_id. It is left out here, because pictures always differ in something else and some
    /// streams use several picture parameter sets in one picture.
    pub(crate) fn begins_new_picture(&self, previous: &SliceHeader) -> bool {
        self.frame_num != previous.frame_num
            || (self.nal_ref_idc == 0) != (previous.nal_ref_idc == 0)
            || self.idr != previous.idr
            || self.idr_pic_id != previous.idr_pic_id
            || self.poc_lsb != previous.poc_lsb
            || self.delta_poc_bottom != previous.delta_poc_bottom
            || self.delta_poc != previous.delta_poc
    }
}

/// Parses and returns pic_order_cnt_lsb, delta_pic_order_cnt_bottom and delta_pic_order_cnt.
fn parse_order_count(r: &mut BitReader<'_>, sps: &Sps, pps: &Pps) -> (u32, i32, [i32; 2]) {
    let delta_of = |present: bool, r: &mut BitReader<'_>| if present { r.se() } else { 0 };
    match sps.poc_type {
        PocType::Lsb { log2_max } => (r.bits(log2_max), delta_of(pps.pic_order_present, r), [0; 2]),
        PocType::Cycle {
            delta_always_zero: false,
            ..
        } => (0, 0, [r.se(), delta_of(pps.pic_order_present, r)]),
        _ => (0, 0, [0; 2]),
    }
}

/// Parses and returns what a P slice has about its references: their number, modifications of the list, weights.
fn parse_references(
    r: &mut BitReader<'_>,
    pps: &Pps,
) -> Result<(u32, Modifications, Option<Weights>), Fault> {
    let count = match r.flag() {
        true => r.ue().saturating_add(1),
        false => pps.num_ref_idx_active,
    };
    // 7.4.3 allows 32 for fields only.
    Fault::Syntax("num_ref_idx_l0_active_minus1 is too large").when(count > 16)?;
    let modifications = match r.flag() {
        true => parse_modifications(r)?,
        false => Modifications::new(),
    };
    let weights = match pps.weighted_pred {
        true => Some(parse_weights(r, count)?),
        false => None,
    };
    Ok((count, modifications, weights))
}

/// Parses and returns disable_deblocking_filter_idc and the offsets to the indices of the filter's tables.
fn parse_deblocking(r: &mut BitReader<'_>, pps: &Pps) -> Result<(u8, i8, i8), Fault> {
    if !pps.deblocking_control_present {
        return Ok((0, 0, 0));
    }
    let deblocking = r.ue_max(2, "disable_deblocking_filter_idc")? as u8;
    if deblocking == 1 {
        return Ok((1, 0, 0));
    }
    let alpha = 2 * r.se_in(-6..=6, "slice_alpha_c0_offset_div2")? as i8;
    let beta = 2 * r.se_in(-6..=6, "slice_beta_offset_div2")? as i8;
    Ok((deblocking, alpha, beta))
}

/// Parses 7.3.3.1 and returns the modifications.
fn parse_modifications(r: &mut BitReader<'_>) -> Result<Modifications, Fault> {
    let mut list = Modifications::new();
    loop {
        let modification = match r.ue_max(3, "modification_of_pic_nums_idc")? {
            0 => Modification::Subtract(r.ue().saturating_add(1)),
            1 => Modification::Add(r.ue().saturating_add(1)),
            2 => Modification::LongTerm(r.ue()),
            _ => return Ok(list),
        };
        const TOO_MANY: &str = "too many reference list modifications";
        push(r, &mut list, modification, TOO_MANY)?;
    }
}

/// Appends an element of the syntax to `list`, unless the data ended within the element. Returns the fault `too_many` if `list` is full.
fn push<A: smallvec::Array>(
    r: &BitReader<'_>,
    list: &mut SmallVec<A>,
    element: A::Item,
    too_many: &'static str,
) -> Result<(), Fault> {
    r.check()?;
    Fault::Syntax(too_many).when(list.len() == list.inline_size())?;
    list.push(element);
    Ok(())
}

/// Parses 7.3.3.2, list 0, and returns the weights.
fn parse_weights(r: &mut BitReader<'_>, count: u32) -> Result<Weights, Fault> {
    let luma = r.ue_max(7, "luma_log2_weight_denom")? as u8;
    let chroma = r.ue_max(7, "chroma_log2_weight_denom")? as u8;
    let default = Weight {
        weight: [1 << luma, 1 << chroma, 1 << chroma],
        offset: [0; 3],
    };
    let mut entries: SmallVec<[Weight; 16]> = smallvec![default; count as usize];
    for entry in &mut entries {
        let mut planes = 0..0;
        for part in [0..1, 1..3] {
            if !r.flag() {
                continue;
            }
            planes.clone_from(&part);
            for plane in planes.clone() {
                entry.weight[plane] = r.se_in(-128..=127, "weight")? as i16;
                entry.offset[plane] = r.se_in(-128..=127, "offset")? as i16;
            }
        }
        r.check()?;
    }
    Ok(Weights {
        log2_denominator: [luma, chroma, chroma],
        entries,
    })
}

/// Parses 7.3.3.3 and returns the marking.
fn parse_marking(r: &mut BitReader<'_>, idr: bool) -> Result<Marking, Fault> {
    if idr {
        // no_output_of_prior_pics_flag is ignored: every decoded picture is shown.
        r.flag();
        return Ok(Marking::Idr {
            long_term: r.flag(),
        });
    }
    if !r.flag() {
        return Ok(Marking::SlidingWindow);
    }
    let mut list = Operations::new();
    loop {
        let operation = match r.ue_max(6, "memory_management_control_operation")? {
            0 => return Ok(Marking::Adaptive(list)),
            1 => Mmco::ForgetShort(r.ue()),
            2 => Mmco::ForgetLong(r.ue()),
            3 => Mmco::MakeLong(r.ue(), r.ue()),
            4 => Mmco::LimitLong(r.ue()),
            5 => Mmco::ForgetAll,
            _ => Mmco::CurrentLong(r.ue()),
        };
        const TOO_MANY: &str = "too many memory management control operations";
        push(r, &mut list, operation, TOO_MANY)?;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::nal::Rbsp;
    use crate::params::tests::{pps, sps};

    /// Returns the header of a P slice of a reference picture.
    pub(crate) fn header(frame_num: u32) -> SliceHeader {
        SliceHeader {
            nal_ref_idc: 1,
            idr: false,
            first_mb: 0,
            predicted: true,
            pps_id: 0,
            frame_num,
            idr_pic_id: 0,
            poc_lsb: 0,
            delta_poc_bottom: 0,
            delta_poc: [0; 2],
            redundant_pic_cnt: 0,
            num_ref_idx_active: 3,
            modifications: Modifications::new(),
            weights: None,
            marking: Marking::SlidingWindow,
            qp: 26,
            deblocking: 0,
            alpha_offset: 0,
            beta_offset: 0,
        }
    }

    /// Parses and returns a header written as bits, in a NAL unit of a reference picture.
    fn parse(bits: &str) -> Result<SliceHeader, Fault> {
        let rbsp = Rbsp::from_bits(&format!("{bits}1"));
        let mut reader = BitReader::new(&rbsp);
        let start = SliceStart::parse(&mut reader)?;
        SliceHeader::parse(&mut reader, start, 0x21, &sps(3), &pps())
    }

    #[test]
    fn a_header_with_modifications_and_operations() {
        // first_mb 1, slice_type 0, pps 0, frame_num 5, override to 2 references, modifications 0:1, 2:0, end,
        // adaptive marking: 1:0, 4:2, 3:(1, 0), 0; slice_qp_delta -1; deblocking 0, offsets 1 and -2.
        let bits = "010 1 1 0101 1 010 1 1 010 011 1 00100 1 010 1 00101 011 00100 010 1 1 011 1 010 00101";
        let header = parse(bits).unwrap();
        assert_eq!(
            (
                header.first_mb,
                header.frame_num,
                header.num_ref_idx_active,
                header.qp
            ),
            (1, 5, 2, 25)
        );
        assert_eq!(
            header.modifications[..],
            [Modification::Subtract(2), Modification::LongTerm(0)]
        );
        let operations = smallvec![
            Mmco::ForgetShort(0),
            Mmco::LimitLong(2),
            Mmco::MakeLong(1, 0),
        ];
        assert_eq!(header.marking, Marking::Adaptive(operations));
        assert_eq!(
            (header.deblocking, header.alpha_offset, header.beta_offset),
            (0, 2, -4)
        );
    }

    #[test]
    fn other_slice_types_are_named() {
        assert_eq!(
            parse("1 010 1 0101"),
            Err(Fault::Unsupported(Feature::BSlices))
        );
        assert_eq!(
            parse("1 00100 1 0101"),
            Err(Fault::Unsupported(Feature::SwitchingSlices))
        );
        assert!(matches!(parse("1 1"), Err(Fault::Syntax(_))));
    }
}
