//! Clause 8.2.1: picture order count.

use crate::params::{PocType, Sps};
use crate::slice::SliceHeader;

/// What the picture order count of the next picture depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PocState {
    /// PicOrderCntMsb of the previous reference picture (type 0).
    previous_msb: i32,
    previous_lsb: i32,
    /// frame_num of the previous picture (types 1 and 2).
    previous_frame_num: u32,
    previous_frame_num_offset: i32,
}

/// The picture order counts of one frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Poc {
    top: i32,
    bottom: i32,
    msb: i32,
    lsb: i32,
    frame_num_offset: i32,
}

impl Poc {
    /// Returns PicOrderCnt of the frame.
    pub(crate) fn value(&self) -> i32 {
        self.top.min(self.bottom)
    }
}

impl PocState {
    /// Derives and returns the picture order counts of the picture with this header.
    pub(crate) fn derive(&self, sps: &Sps, header: &SliceHeader) -> Poc {
        if let PocType::Lsb { log2_max } = sps.poc_type {
            return self.derive_lsb(1 << log2_max, header);
        }
        let frame_num_offset = self.frame_num_offset(sps, header);
        let (top, bottom) = match &sps.poc_type {
            PocType::Cycle {
                offset_for_non_ref_pic,
                offset_for_top_to_bottom_field,
                offsets,
                ..
            } => {
                let mut expected = expected_count(offsets, frame_num_offset, header);
                if header.nal_ref_idc == 0 {
                    expected = expected.wrapping_add(*offset_for_non_ref_pic);
                }
                let top = expected.wrapping_add(header.delta_poc[0]);
                let bottom = top.wrapping_add(*offset_for_top_to_bottom_field);
                (top, bottom.wrapping_add(header.delta_poc[1]))
            }
            _ => {
                let twice = 2 * (frame_num_offset + header.frame_num as i32);
                let top = twice - i32::from(header.nal_ref_idc == 0);
                (top, top)
            }
        };
        Poc {
            top,
            bottom,
            frame_num_offset,
            ..Poc::default()
        }
    }

    fn derive_lsb(&self, max_lsb: i32, header: &SliceHeader) -> Poc {
        let (previous_msb, previous_lsb) = match header.idr {
            true => (0, 0),
            false => (self.previous_msb, self.previous_lsb),
        };
        let lsb = header.poc_lsb as i32;
        let msb = if lsb < previous_lsb && previous_lsb - lsb >= max_lsb / 2 {
            previous_msb.wrapping_add(max_lsb)
        } else if lsb > previous_lsb && lsb - previous_lsb > max_lsb / 2 {
            previous_msb.wrapping_sub(max_lsb)
        } else {
            previous_msb
        };
        let top = msb.wrapping_add(lsb);
        Poc {
            top,
            bottom: top.wrapping_add(header.delta_poc_bottom),
            msb,
            lsb,
            ..Poc::default()
        }
    }

    fn frame_num_offset(&self, sps: &Sps, header: &SliceHeader) -> i32 {
        if header.idr {
            0
        } else if self.previous_frame_num > header.frame_num {
            // Wraps after 2^31 pictures, which only damaged streams without IDR pictures reach.
            self.previous_frame_num_offset
                .wrapping_add(sps.max_frame_num() as i32)
                & 0x3fff_ffff
        } else {
            self.previous_frame_num_offset
        }
    }

    /// Updates the state after a decoded picture; `reset` says that it had memory_management_control_operation 5.
    pub(crate) fn advance(&mut self, poc: &Poc, header: &SliceHeader, reset: bool) {
        if reset {
            let top = poc.top.wrapping_sub(poc.value());
            *self = PocState {
                previous_lsb: top,
                ..PocState::default()
            };
            return;
        }
        if header.nal_ref_idc != 0 {
            self.previous_msb = poc.msb;
            self.previous_lsb = poc.lsb;
        }
        self.previous_frame_num = header.frame_num;
        self.previous_frame_num_offset = poc.frame_num_offset;
    }
}

/// Returns the picture order count that the cycle of type 1 has for a reference picture (8.2.1.2).
fn expected_count(offsets: &[i32], frame_num_offset: i32, header: &SliceHeader) -> i32 {
    let mut number = match offsets {
        [] => 0,
        _ => frame_num_offset + header.frame_num as i32,
    };
    if header.nal_ref_idc == 0 && number > 0 {
        number -= 1;
    }
    if number == 0 {
        return 0;
    }
    let cycles = (number - 1) / offsets.len() as i32;
    let last = (number - 1) as usize % offsets.len();
    let add = |sum: i32, &offset: &i32| sum.wrapping_add(offset);
    let cycle = offsets.iter().fold(0, add);
    let whole = cycles.wrapping_mul(cycle);
    offsets[..=last].iter().fold(whole, add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::tests::sps;
    use crate::slice::tests::header;

    /// Returns the counts of `pictures`, each as (frame_num, nal_ref_idc, pic_order_cnt_lsb).
    fn counts(poc_type: PocType, pictures: &[(u32, u8, u32)]) -> Vec<i32> {
        let sps = Sps { poc_type, ..sps(1) };
        let mut state = PocState::default();
        let one = |&(frame_num, nal_ref_idc, poc_lsb): &(u32, u8, u32)| {
            let header = SliceHeader {
                nal_ref_idc,
                poc_lsb,
                ..header(frame_num)
            };
            let poc = state.derive(&sps, &header);
            state.advance(&poc, &header, false);
            poc.value()
        };
        pictures.iter().map(one).collect()
    }

    #[test]
    fn type_0_wraps_both_ways() {
        let pictures = [
            (0, 1, 0),
            (1, 1, 6),
            (2, 1, 12),
            (3, 0, 9),
            (3, 1, 2),
            (4, 0, 15),
            (4, 1, 8),
        ];
        assert_eq!(
            counts(PocType::Lsb { log2_max: 4 }, &pictures),
            [0, 6, 12, 9, 18, 15, 24]
        );
    }

    #[test]
    fn type_1_adds_the_cycle() {
        let poc_type = PocType::Cycle {
            delta_always_zero: true,
            offset_for_non_ref_pic: -1,
            offset_for_top_to_bottom_field: 0,
            offsets: vec![2, 4],
        };
        let pictures = [
            (0, 1, 0),
            (1, 1, 0),
            (2, 1, 0),
            (3, 0, 0),
            (3, 1, 0),
            (15, 1, 0),
            (0, 1, 0),
        ];
        assert_eq!(counts(poc_type, &pictures), [0, 2, 6, 5, 8, 44, 48]);
    }

    #[test]
    fn type_2_is_the_decoding_order() {
        let pictures = [
            (0, 1, 0),
            (1, 0, 0),
            (1, 1, 0),
            (15, 1, 0),
            (0, 1, 0),
            (1, 0, 0),
        ];
        assert_eq!(
            counts(PocType::DecodingOrder, &pictures),
            [0, 1, 2, 30, 32, 33]
        );
    }

    #[test]
    fn operation_5_starts_again() {
        let sps = Sps {
            poc_type: PocType::Lsb { log2_max: 4 },
            ..sps(1)
        };
        let mut state = PocState::default();
        let first = SliceHeader {
            poc_lsb: 14,
            delta_poc_bottom: -2,
            ..header(3)
        };
        let poc = state.derive(&sps, &first);
        assert_eq!(poc.value(), -4);
        state.advance(&poc, &first, true);
        let next = SliceHeader {
            poc_lsb: 5,
            ..header(1)
        };
        assert_eq!(state.derive(&sps, &next).value(), 5);
    }
}
