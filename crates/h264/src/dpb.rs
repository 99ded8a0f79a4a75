//! Clauses 8.2.4 and 8.2.5: reference lists and the marking of reference pictures.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::Fault;
use crate::frame::Frame;
use crate::params::Sps;
use crate::slice::{Marking, Mmco, Modification, SliceHeader};

/// Whether and how a picture is used for reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    Short,
    /// Long-term, with this LongTermFrameIdx.
    Long(u32),
}

/// A picture that is used for reference.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    /// Its frame, which several entries share if it stands for lost pictures.
    pub(crate) frame: Arc<Frame>,
    pub(crate) frame_num: u32,
    pub(crate) usage: Usage,
}

/// A reference list, stored inline: it has at most 32 entries, and one more during modification.
pub(crate) type List<'a> = SmallVec<[Option<&'a Reference>; 33]>;

/// The reference pictures in decoding order.
#[derive(Debug, Default)]
pub(crate) struct References {
    list: Vec<Reference>,
}

impl References {
    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    /// Returns the number of reference pictures.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether `frame` is used for reference.
    pub(crate) fn holds(&self, frame: &Arc<Frame>) -> bool {
        self.list
            .iter()
            .any(|reference| Arc::ptr_eq(&reference.frame, frame))
    }

    /// Builds reference list 0 of a P slice: initial order (8.2.4.2.1), then modification (8.2.4.3).
    ///
    /// If the stream refers to a missing picture, the list has `None` in its place and the fault is returned beside the list.
    pub(crate) fn build_list(
        &self,
        sps: &Sps,
        header: &SliceHeader,
    ) -> (List<'_>, Result<(), Fault>) {
        // Short-term pictures by falling picture number, then long-term pictures by rising index.
        let order = |reference: &Reference| match reference.usage {
            Usage::Short => (0, -wrap(reference.frame_num, sps, header.frame_num)),
            Usage::Long(index) => (1, i64::from(index)),
        };
        let mut list: List<'_> = self.list.iter().map(Some).collect();
        list.sort_unstable_by_key(|reference| {
            // Damaged streams may have two pictures with one number: then the earlier one comes first.
            reference.map(|reference| (order(reference), std::ptr::from_ref(reference)))
        });
        let length = header.num_ref_idx_active as usize;
        list.resize(length, None);
        let result = self.modify(&mut list, sps, header);
        let complete = list.iter().all(Option::is_some);
        let missing = Err(Fault::Syntax(
            "the reference list has no picture at some index",
        ));
        (list, result.and(if complete { Ok(()) } else { missing }))
    }

    fn find_short(&self, sps: &Sps, frame_num: u32, number: i64) -> Option<usize> {
        self.list
            .iter()
            .position(|r| r.usage == Usage::Short && wrap(r.frame_num, sps, frame_num) == number)
    }

    fn find_long(&self, index: u32) -> Option<usize> {
        self.list.iter().position(|r| r.usage == Usage::Long(index))
    }

    fn modify<'a>(
        &'a self,
        list: &mut List<'a>,
        sps: &Sps,
        header: &SliceHeader,
    ) -> Result<(), Fault> {
        let max = i64::from(sps.max_frame_num());
        let mut predicted = i64::from(header.frame_num);
        let mut result = Ok(());
        for (at, modification) in header.modifications.iter().take(list.len()).enumerate() {
            let found = match *modification {
                Modification::LongTerm(number) => self.find_long(number),
                Modification::Subtract(difference) | Modification::Add(difference) => {
                    let sign = if matches!(modification, Modification::Add(_)) {
                        1
                    } else {
                        -1
                    };
                    predicted = (predicted + sign * i64::from(difference)).rem_euclid(max);
                    let number = wrap(predicted, sps, header.frame_num);
                    self.find_short(sps, header.frame_num, number)
                }
            };
            let Some(found) = found else {
                result = Err(Fault::Syntax(
                    "modification of a reference list names a missing picture",
                ));
                continue;
            };
            // Insert the picture, then remove its later entry (8-37, 8-38).
            let picture = &self.list[found];
            let length = list.len();
            list.insert(at, Some(picture));
            let same = |entry: &Option<&Reference>| {
                entry.is_some_and(|entry| std::ptr::eq(entry, picture))
            };
            let later = list.iter().skip(at + 1).position(same);
            if let Some(later) = later {
                list.remove(at + 1 + later);
            }
            list.truncate(length);
        }
        result
    }

    /// Removes the oldest short-term picture if the buffer is full (8.2.5.3).
    fn slide(&mut self, sps: &Sps, frame_num: u32) {
        while self.list.len() >= sps.num_ref_frames.max(1) as usize {
            let oldest = (0..self.list.len())
                .filter(|&at| self.list[at].usage == Usage::Short)
                .min_by_key(|&at| wrap(self.list[at].frame_num, sps, frame_num));
            // A full buffer without short-term pictures breaks the standard; the first long-term one makes room.
            self.list.remove(oldest.unwrap_or(0));
        }
    }

    /// Inserts `frame` for a picture that is missing in the stream (8.2.5.2).
    pub(crate) fn fill_gap(&mut self, sps: &Sps, frame_num: u32, frame: Arc<Frame>) {
        self.slide(sps, frame_num);
        self.list.push(Reference {
            frame,
            frame_num,
            usage: Usage::Short,
        });
    }

    /// Returns the reference picture that was decoded last.
    pub(crate) fn latest(&self) -> Option<&Arc<Frame>> {
        self.list.last().map(|reference| &reference.frame)
    }

    /// Marks reference pictures after the current picture, a reference picture itself, was decoded (8.2.5.1).
    pub(crate) fn mark(
        &mut self,
        sps: &Sps,
        header: &SliceHeader,
        frame: &Arc<Frame>,
    ) -> Result<(), Fault> {
        let mut result = Ok(());
        let mut usage = Usage::Short;
        let mut frame_num = header.frame_num;
        match &header.marking {
            Marking::Idr { long_term } => {
                self.clear();
                if *long_term {
                    usage = Usage::Long(0);
                }
            }
            Marking::SlidingWindow => self.slide(sps, frame_num),
            Marking::Adaptive(operations) => {
                for operation in operations {
                    let outcome = self.operate(operation, sps, header);
                    result = result.and(outcome);
                    match *operation {
                        Mmco::ForgetAll => frame_num = 0,
                        Mmco::CurrentLong(long_term_frame_idx) if outcome.is_ok() => {
                            usage = Usage::Long(long_term_frame_idx);
                        }
                        _ => {}
                    }
                }
                if self.list.len() >= sps.num_ref_frames.max(1) as usize {
                    result = result.and(Err(Fault::Syntax(
                        "more reference pictures than max_num_ref_frames",
                    )));
                    self.slide(sps, frame_num);
                }
            }
        }
        self.list.push(Reference {
            frame: Arc::clone(frame),
            frame_num,
            usage,
        });
        result
    }

    /// Executes one memory management control operation (8.2.5.4).
    fn operate(&mut self, operation: &Mmco, sps: &Sps, header: &SliceHeader) -> Result<(), Fault> {
        const ABSENT: Fault =
            Fault::Syntax("a memory management operation names a missing picture");
        let number =
            |difference_minus1: u32| i64::from(header.frame_num) - i64::from(difference_minus1) - 1;
        match *operation {
            Mmco::ForgetShort(difference_minus1) => {
                let at = self.find_short(sps, header.frame_num, number(difference_minus1));
                self.list.remove(at.ok_or(ABSENT)?);
            }
            Mmco::ForgetLong(long_term_pic_num) => {
                let at = self.find_long(long_term_pic_num);
                self.list.remove(at.ok_or(ABSENT)?);
            }
            Mmco::MakeLong(difference_minus1, long_term_frame_idx) => {
                check_long(long_term_frame_idx)?;
                let at = self.find_short(sps, header.frame_num, number(difference_minus1));
                let at = at.ok_or(ABSENT)?;
                let usage = Usage::Long(long_term_frame_idx);
                self.list[at].usage = usage;
                let same = |&other: &usize| other != at && self.list[other].usage == usage;
                if let Some(old) = (0..self.list.len()).find(same) {
                    self.list.remove(old);
                }
            }
            Mmco::LimitLong(max_plus1) => {
                self.list
                    .retain(|r| !matches!(r.usage, Usage::Long(index) if index >= max_plus1));
            }
            Mmco::ForgetAll => self.clear(),
            Mmco::CurrentLong(long_term_frame_idx) => {
                check_long(long_term_frame_idx)?;
                self.list
                    .retain(|r| r.usage != Usage::Long(long_term_frame_idx));
            }
        }
        Ok(())
    }
}

/// Returns `number` minus MaxFrameNum if it is above `frame_num`, else unchanged (8-27, 8-36). Of the frame_num of a short-term picture,
/// that is its PicNum (8.2.4.1).
fn wrap(number: impl Into<i64>, sps: &Sps, frame_num: u32) -> i64 {
    let number = number.into();
    if number > i64::from(frame_num) {
        number - i64::from(sps.max_frame_num())
    } else {
        number
    }
}

/// Returns the fault of LongTermFrameIdx, if it is out of range. MaxLongTermFrameIdx is not enforced: some encoders forget to raise it, and
/// the limit on all frames holds anyway.
fn check_long(index: u32) -> Result<(), Fault> {
    Fault::Syntax("long_term_frame_idx is too large").when(index >= 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::tests::sps;
    use crate::slice::tests::header;
    use smallvec::smallvec;

    /// Decodes reference pictures with these frame_nums and returns the lists after them; picture number i of the list gets frame i.
    fn decoded(sps: &Sps, frame_nums: &[u32]) -> References {
        let mut references = References::default();
        for (number, &frame_num) in frame_nums.iter().enumerate() {
            references
                .mark(sps, &header(frame_num), &frame(number as u64))
                .unwrap();
        }
        references
    }

    fn frame(number: u64) -> Arc<Frame> {
        let mut frame = Frame::new(1, 1, 0);
        frame.number = number;
        Arc::new(frame)
    }

    fn numbers(list: &[Option<&Reference>]) -> Vec<Option<u64>> {
        list.iter()
            .map(|entry| entry.map(|reference| reference.frame.number))
            .collect()
    }

    #[test]
    fn the_initial_list_goes_back_in_time_and_wraps() {
        let sps = sps(4);
        let references = decoded(&sps, &[13, 14, 15, 0]);
        let (list, result) = references.build_list(&sps, &header(1));
        assert_eq!(
            (numbers(&list), result),
            (vec![Some(3), Some(2), Some(1)], Ok(()))
        );
    }

    #[test]
    fn the_oldest_picture_slides_out() {
        let sps = sps(2);
        let references = decoded(&sps, &[14, 15, 0]);
        let (list, result) = references.build_list(&sps, &header(1));
        assert_eq!(numbers(&list), [Some(2), Some(1), None]);
        assert!(result.is_err());
    }

    #[test]
    fn modifications_move_pictures_to_the_front() {
        let sps = sps(4);
        let references = decoded(&sps, &[14, 15, 0, 1]);
        let mut slice = header(2);
        // Picture number 2 - 3 = -1 is frame_num 15; adding 2 leads back to 1.
        slice.modifications = smallvec![Modification::Subtract(3), Modification::Add(2)];
        let (list, result) = references.build_list(&sps, &slice);
        assert_eq!(
            (numbers(&list), result),
            (vec![Some(1), Some(3), Some(2)], Ok(()))
        );
        slice.modifications = smallvec![Modification::Subtract(9)];
        let (list, result) = references.build_list(&sps, &slice);
        assert_eq!(numbers(&list), [Some(3), Some(2), Some(1)]);
        assert!(result.is_err());
    }

    #[test]
    fn long_term_pictures_stay_and_come_last() {
        let sps = sps(3);
        let mut references = decoded(&sps, &[0, 1]);
        let mut slice = header(2);
        slice.marking = Marking::Adaptive(smallvec![Mmco::LimitLong(1), Mmco::MakeLong(1, 0)]);
        references.mark(&sps, &slice, &frame(2)).unwrap();
        for number in 3..6 {
            references
                .mark(&sps, &header(number as u32), &frame(number))
                .unwrap();
        }
        let mut slice = header(6);
        assert_eq!(
            numbers(&references.build_list(&sps, &slice).0),
            [Some(5), Some(4), Some(0)]
        );
        slice.modifications = smallvec![Modification::LongTerm(0)];
        assert_eq!(
            numbers(&references.build_list(&sps, &slice).0),
            [Some(0), Some(5), Some(4)]
        );
        slice.marking = Marking::Adaptive(smallvec![Mmco::ForgetLong(0)]);
        references.mark(&sps, &slice, &frame(6)).unwrap();
        assert_eq!(
            numbers(&references.build_list(&sps, &header(7)).0),
            [Some(6), Some(5), Some(4)]
        );
    }

    #[test]
    fn operations_on_the_current_picture() {
        let sps = sps(3);
        let mut references = decoded(&sps, &[0, 1]);
        let mut slice = header(2);
        slice.marking = Marking::Adaptive(smallvec![Mmco::ForgetAll, Mmco::CurrentLong(1)]);
        references.mark(&sps, &slice, &frame(2)).unwrap();
        assert_eq!(references.len(), 1);
        slice.marking = Marking::Adaptive(smallvec![Mmco::ForgetShort(0)]);
        assert!(references.mark(&sps, &slice, &frame(3)).is_err());
        assert_eq!(
            numbers(&references.build_list(&sps, &header(3)).0)[..2],
            [Some(3), Some(2)]
        );
        references
            .operate(&Mmco::LimitLong(1), &sps, &slice)
            .unwrap();
        assert_eq!(references.len(), 1);
    }

    #[test]
    fn a_gap_repeats_a_frame_under_the_missing_numbers() {
        let sps = sps(3);
        let mut references = decoded(&sps, &[0]);
        let latest = references.latest().cloned().unwrap();
        for frame_num in [1, 2] {
            references.fill_gap(&sps, frame_num, Arc::clone(&latest));
        }
        let slice = header(3);
        let (list, result) = references.build_list(&sps, &slice);
        assert_eq!((numbers(&list), result), (vec![Some(0); 3], Ok(())));
        drop(list);
        references.fill_gap(&sps, 3, latest);
        assert_eq!(references.len(), 3);
    }
}
