//! The decoder: from NAL units to jobs and output.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::bits::BitReader;
use crate::conceal::conceal;
use crate::dpb::References;
use crate::error::{Error, Fault, Feature};
use crate::frame::Frame;
use crate::job::{Job, Slice};
use crate::macroblock::SliceParser;
use crate::nal::{NalStream, NalUnit, Rbsp};
use crate::neighbours::Context;
use crate::output::Output;
use crate::params::{Pps, Sps};
use crate::poc::{Poc, PocState};
use crate::slice::{Marking, Mmco, SliceHeader, SliceStart};
use crate::strength;

/// Bounds on what a stream may ask for, checked before memory is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Macroblocks in a picture; the default is that of level 6.2 (Table A-1). All reference frames together may have five
    /// times as many, as at that level.
    pub max_macroblocks: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_macroblocks: 139_264,
        }
    }
}

/// A parameter set that was received, or why it cannot be used.
enum Received<T> {
    Usable(Arc<T>),
    /// The error is reported when a slice refers to the set, once.
    Unusable(Option<Error>),
}

/// A NAL unit whose payload is in `Decoder::rbsp`.
#[derive(Clone, Copy)]
struct Loaded {
    header: u8,
    /// Offset of the header byte in the stream.
    offset: u64,
}

/// The picture whose slices are being parsed.
struct Picture {
    job: Arc<Job>,
    sps: Arc<Sps>,
    /// Of the first slice.
    header: SliceHeader,
    poc: Poc,
}

/// Entropy decoding, parameter sets, reference marking and output order; touches no pixel.
///
/// Memory of jobs and frames is used again once nobody else holds them, so that hardly anything is allocated per picture
/// after the first ones. How many there are is up to the caller, who should drop jobs when they are done and take
/// output: the decoder itself holds at most 16 references, 16 frames that wait for their turn, and one picture in work.
pub struct Decoder {
    limits: Limits,
    sps: Vec<Option<Received<Sps>>>,
    pps: Vec<Option<Received<Pps>>>,
    active: Option<Arc<Sps>>,
    references: References,
    output: Output,
    poc: PocState,
    previous_ref_frame_num: u32,
    /// The picture decoded last: what lost macroblocks are concealed from.
    previous: Option<Arc<Frame>>,
    current: Option<Picture>,
    finished: Option<Arc<Job>>,
    errors: VecDeque<Error>,
    rbsp: Rbsp,
    /// The payload in `rbsp` belongs to a slice of the next picture.
    pending: Option<Loaded>,
    context: Context,
    frames: Vec<Arc<Frame>>,
    jobs: Vec<Arc<Job>>,
    /// Stands in idle jobs for a frame.
    nothing: Arc<Frame>,
    pictures: u64,
    buffers: u32,
    told_of_missing_idr: bool,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder")
            .field("limits", &self.limits)
            .field("pictures", &self.pictures)
            .finish_non_exhaustive()
    }
}

impl Decoder {
    /// A decoder that has seen nothing yet.
    pub fn new(limits: Limits) -> Self {
        Decoder {
            limits,
            sps: (0..32).map(|_| None).collect(),
            pps: (0..256).map(|_| None).collect(),
            active: None,
            references: References::default(),
            output: Output::default(),
            poc: PocState::default(),
            previous_ref_frame_num: 0,
            previous: None,
            current: None,
            finished: None,
            errors: VecDeque::new(),
            rbsp: Rbsp::default(),
            pending: None,
            context: Context::default(),
            frames: Vec::new(),
            jobs: Vec::new(),
            nothing: Arc::new(Frame::new(0, 0, 0)),
            pictures: 0,
            buffers: 0,
            told_of_missing_idr: false,
        }
    }

    /// Parses up to the end of the next picture.
    ///
    /// `Some(Err(_))` reports an error; decoding goes on with the next call. `None` is the end of the stream: all frames
    /// are then on their way to [`next_output`](Self::next_output). Jobs come in decoding order, and the references of a
    /// job are frames of earlier jobs.
    pub fn next_picture(&mut self, stream: &mut NalStream<'_>) -> Option<Result<Arc<Job>, Error>> {
        loop {
            if let Some(error) = self.errors.pop_front() {
                return Some(Err(error));
            }
            if let Some(job) = self.finished.take() {
                return Some(Ok(job));
            }
            if let Some(unit) = self.pending.take() {
                self.slice(unit);
            } else if let Some(unit) = stream.next_unit() {
                self.unit(unit);
            } else if self.current.is_some() {
                self.finish_picture(stream.offset() as u64);
            } else {
                self.output.flush();
                return None;
            }
        }
    }

    /// The next frame in output order, if it is known by now; ask after each picture (or the end) that
    /// [`next_picture`](Self::next_picture) gives, not after an error, until it gives `None`.
    /// The frame's pixels are there only once its job has been run.
    pub fn next_output(&mut self) -> Option<Arc<Frame>> {
        self.output.next()
    }

    fn unit(&mut self, unit: NalUnit<'_>) {
        let header = unit.bytes[0];
        let offset = unit.offset as u64;
        if header & 0x80 != 0 {
            self.errors
                .push_back(Fault::Syntax("forbidden_zero_bit is 1").at(offset));
            return;
        }
        let kind = header & 31;
        if !matches!(kind, 1..=5 | 7 | 8) {
            return;
        }
        self.rbsp.load(&unit.bytes[1..]);
        let loaded = Loaded { header, offset };
        match kind {
            1 | 5 => self.slice(loaded),
            7 => self.sequence_parameter_set(offset),
            8 => self.picture_parameter_set(offset),
            _ => self
                .errors
                .push_back(Fault::Unsupported(Feature::DataPartitioning).at(offset)),
        }
    }

    /// Where in the stream `reader` stands, which reads the unit at `offset`.
    fn place(rbsp: &Rbsp, reader: &BitReader<'_>, offset: u64) -> u64 {
        offset + 1 + rbsp.original_position(reader.byte_position()) as u64
    }

    /// Keeps a parameter set. Streams repeat them, often in front of each picture: so nothing is allocated where the memory of the last
    /// one can be used again, or it says the same.
    fn receive<T: PartialEq>(place: &mut Option<Received<T>>, set: T) {
        if let Some(Received::Usable(old)) = place {
            if let Some(old) = Arc::get_mut(old) {
                *old = set;
                return;
            }
            if **old == set {
                return;
            }
        }
        *place = Some(Received::Usable(Arc::new(set)));
    }

    fn sequence_parameter_set(&mut self, offset: u64) {
        let mut reader = BitReader::new(&self.rbsp);
        match Sps::parse(&mut reader, self.limits.max_macroblocks) {
            Ok(sps) => {
                let id = usize::from(sps.id);
                Self::receive(&mut self.sps[id], sps);
            }
            Err((id, fault)) => {
                let error = fault.at(Self::place(&self.rbsp, &reader, offset));
                match id {
                    Some(id) => self.sps[usize::from(id)] = Some(Received::Unusable(Some(error))),
                    None => self.errors.push_back(error),
                }
            }
        }
    }

    fn picture_parameter_set(&mut self, offset: u64) {
        let mut reader = BitReader::new(&self.rbsp);
        match Pps::parse(&mut reader) {
            Ok(pps) => {
                let id = usize::from(pps.id);
                Self::receive(&mut self.pps[id], pps);
            }
            Err((id, fault)) => {
                let error = fault.at(Self::place(&self.rbsp, &reader, offset));
                match id {
                    Some(id) => self.pps[usize::from(id)] = Some(Received::Unusable(Some(error))),
                    None => self.errors.push_back(error),
                }
            }
        }
    }

    /// The set with that id; None, once with an error, if it cannot be used.
    fn find<T>(
        sets: &mut [Option<Received<T>>],
        id: u8,
        errors: &mut VecDeque<Error>,
        missing: Error,
    ) -> Option<Arc<T>> {
        match sets.get_mut(usize::from(id)) {
            Some(Some(Received::Usable(set))) => Some(Arc::clone(set)),
            Some(Some(Received::Unusable(error))) => {
                errors.extend(error.take());
                None
            }
            _ => {
                errors.push_back(missing);
                None
            }
        }
    }

    /// Parses the slice in `rbsp`, or ends the picture before it and leaves the slice pending.
    fn slice(&mut self, unit: Loaded) {
        let rbsp = std::mem::take(&mut self.rbsp);
        let mut reader = BitReader::new(&rbsp);
        let result = self.parse_slice(&mut reader, unit);
        if let Err(fault) = result {
            self.errors
                .push_back(fault.at(Self::place(&rbsp, &reader, unit.offset)));
        }
        self.rbsp = rbsp;
    }

    fn parse_slice(&mut self, reader: &mut BitReader<'_>, unit: Loaded) -> Result<(), Fault> {
        let start = SliceStart::parse(reader)?;
        let offset = unit.offset;
        let no_pps = Fault::Syntax("the slice refers to a picture parameter set that is not there")
            .at(offset);
        let Some(pps) = Self::find(&mut self.pps, start.pps_id, &mut self.errors, no_pps) else {
            return Ok(());
        };
        let no_sps =
            Fault::Syntax("the slice refers to a sequence parameter set that is not there")
                .at(offset);
        let Some(sps) = Self::find(&mut self.sps, pps.sps_id, &mut self.errors, no_sps) else {
            return Ok(());
        };
        let header = SliceHeader::parse(reader, start, unit.header, &sps, &pps)?;
        if header.redundant_pic_cnt > 0 {
            return Err(Fault::Unsupported(Feature::RedundantSlices));
        }
        match &self.current {
            Some(picture) if header.begins_new_picture(&picture.header) => {
                self.finish_picture(offset);
                self.pending = Some(unit);
                return Ok(());
            }
            Some(picture) if !picture.sps.continues(&sps) => {
                return Err(Fault::Syntax(
                    "slices of one picture refer to different sequence parameter sets",
                ));
            }
            Some(_) => {}
            None => self.begin_picture(&header, &sps, offset)?,
        }
        let result = self.slice_data(reader, &header, &pps);
        // A picture of which nothing could be read is no picture.
        if self
            .current
            .as_ref()
            .is_some_and(|picture| picture.job.slices.is_empty())
        {
            self.current = None;
        }
        result
    }

    fn slice_data(
        &mut self,
        reader: &mut BitReader<'_>,
        header: &SliceHeader,
        pps: &Pps,
    ) -> Result<(), Fault> {
        let Some(picture) = &mut self.current else {
            return Ok(());
        };
        let Some(job) = Arc::get_mut(&mut picture.job) else {
            return Ok(());
        };
        // One number more is for concealed macroblocks.
        if job.slices.len() >= usize::from(u16::MAX) {
            return Err(Fault::Limit("number of slices"));
        }
        let mut list = SmallVec::<[u8; 32]>::new();
        let mut complete = Ok(());
        if header.predicted {
            let (references, result) = self.references.build_list(&picture.sps, header);
            complete = result;
            let fallback = self.references.latest().or(self.previous.as_ref());
            for reference in references {
                let frame = reference
                    .map(|reference| &reference.frame)
                    .or(fallback)
                    .ok_or(Fault::Syntax("there is no reference picture"))?;
                list.push(slot(job, frame));
            }
        }
        job.slices.push(Slice {
            deblocking: header.deblocking,
            alpha_offset: header.alpha_offset,
            beta_offset: header.beta_offset,
            weights: header.weights.clone(),
        });
        let slice = (job.slices.len() - 1) as u16;
        let context = &mut self.context;
        let mut parser = SliceParser::new(*reader, job, context, slice, header, pps, &list);
        let parsed = parser.parse();
        *reader = parser.reader();
        let end = parser.address() as u32;
        context.brought.add(header.first_mb as usize..end as usize);
        if header.first_mb > 0 {
            context.seams.push((header.first_mb, end));
        }
        complete.and(parsed)
    }

    /// Activates parameter sets, fills a gap in frame_num and takes a job and a frame for a new picture.
    fn begin_picture(
        &mut self,
        header: &SliceHeader,
        sps: &Arc<Sps>,
        offset: u64,
    ) -> Result<(), Fault> {
        if header.idr {
            self.output.flush();
            self.activate(sps);
        } else {
            match &self.active {
                None if self.told_of_missing_idr => return Ok(()),
                None => {
                    self.told_of_missing_idr = true;
                    return Err(Fault::Syntax(
                        "pictures before the first IDR picture are dropped",
                    ));
                }
                Some(active) if !active.continues(sps) => {
                    return Err(Fault::Syntax(
                        "the sequence parameter set changes without an IDR picture",
                    ));
                }
                Some(_) => self.fill_gap(header, sps, offset),
            }
        }
        let poc = self.poc.derive(sps, header);
        let value = if resets(header) { 0 } else { poc.value() };
        let mut job = self.idle_job();
        let frame = self.idle_frame(sps, value);
        if let Some(job) = Arc::get_mut(&mut job) {
            job.reset(frame);
        }
        self.context
            .begin_picture((sps.mb_width * sps.mb_height) as usize);
        self.current = Some(Picture {
            job,
            sps: Arc::clone(sps),
            header: header.clone(),
            poc,
        });
        Ok(())
    }

    /// Makes `sps` the active one; an IDR picture begins.
    fn activate(&mut self, sps: &Arc<Sps>) {
        let size = |sps: &Sps| (sps.mb_width, sps.mb_height);
        if self
            .active
            .as_ref()
            .is_some_and(|active| size(active) != size(sps))
        {
            self.references.clear();
            self.previous = None;
            self.frames.clear();
            self.jobs.clear();
        }
        self.active = Some(Arc::clone(sps));
        self.previous_ref_frame_num = 0;
    }

    /// 8.2.5.2: pictures that are missing by frame_num are taken to equal the reference picture before them, whether the
    /// encoder left them out or they were lost.
    fn fill_gap(&mut self, header: &SliceHeader, sps: &Sps, offset: u64) {
        let max = sps.max_frame_num();
        let distance = (header.frame_num + max - self.previous_ref_frame_num) % max;
        if distance <= 1 {
            return;
        }
        if !sps.gaps_allowed {
            self.errors.push_back(
                Fault::Syntax("a gap in frame_num: reference pictures are missing").at(offset),
            );
        }
        let Some(frame) = self.references.latest().or(self.previous.as_ref()).cloned() else {
            return;
        };
        // More than fit would only push each other out.
        for back in (1..distance.min(sps.num_ref_frames.max(1) + 1)).rev() {
            let frame_num = (header.frame_num + max - back) % max;
            self.references.fill_gap(sps, frame_num, Arc::clone(&frame));
        }
        self.previous_ref_frame_num = (header.frame_num + max - 1) % max;
    }

    /// Ends the current picture: conceals what is missing, marks references and finds the output order.
    fn finish_picture(&mut self, offset: u64) {
        let Some(mut picture) = self.current.take() else {
            return;
        };
        let Some(job) = Arc::get_mut(&mut picture.job) else {
            return;
        };
        let context = &self.context;
        let brought = context.brought.len();
        if brought == 0 {
            return;
        }
        if brought < job.mbs.len() {
            let slot = self.previous.as_ref().map(|previous| slot(job, previous));
            conceal(job, &context.brought, slot);
            let macroblocks = job.concealed;
            self.errors.push_back(Error::Lost {
                macroblocks,
                offset,
            });
        }
        for &seam in &context.seams {
            strength::across_slices(job, seam);
        }
        let (sps, header) = (&picture.sps, &picture.header);
        let frame = Arc::clone(&job.frame);
        let reset = resets(header);
        if reset {
            self.output.flush();
        }
        let mut references = self.references.len();
        if header.nal_ref_idc != 0 {
            if let Err(fault) = self.references.mark(sps, header, &frame) {
                self.errors.push_back(fault.at(offset));
            }
            references = self.references.len() - 1;
            self.previous_ref_frame_num = if reset { 0 } else { header.frame_num };
        }
        self.poc.advance(&picture.poc, header, reset);
        self.output_frame(&frame, references, sps, header.nal_ref_idc != 0);
        self.previous = Some(frame);
        self.jobs.push(Arc::clone(&picture.job));
        self.finished = Some(picture.job);
    }

    /// C.4.5.3: shows waiting pictures until there is room for `frame`, then lets it wait; `references` does not count it.
    fn output_frame(
        &mut self,
        frame: &Arc<Frame>,
        references: usize,
        sps: &Sps,
        is_reference: bool,
    ) {
        let capacity = sps.dpb_frames();
        let mut reorder = sps.reorder_frames();
        loop {
            let waiting = self.output.waiting();
            let only_waiting = waiting
                .iter()
                .filter(|waiting| !self.references.holds(waiting))
                .count();
            if references + only_waiting < capacity {
                break;
            }
            if waiting.is_empty()
                || !is_reference && waiting.iter().all(|waiting| waiting.poc > frame.poc)
            {
                reorder = reorder.min(waiting.len());
                break;
            }
            self.output.bump();
        }
        self.output.add(Arc::clone(frame), reorder);
    }

    /// A job that nobody uses.
    fn idle_job(&mut self) -> Arc<Job> {
        let mut idle = None;
        for (at, job) in self.jobs.iter_mut().enumerate() {
            // An idle job must not keep frames from being used again.
            if let Some(job) = Arc::get_mut(job) {
                job.references.clear();
                job.frame = Arc::clone(&self.nothing);
                idle = Some(at);
            }
        }
        match idle {
            Some(at) => self.jobs.swap_remove(at),
            None => {
                self.buffers += 1;
                Arc::new(Job::new(Arc::clone(&self.nothing), self.buffers))
            }
        }
    }

    /// A frame that nobody uses, for the next picture.
    fn idle_frame(&mut self, sps: &Sps, poc: i32) -> Arc<Frame> {
        let idle = self
            .frames
            .iter_mut()
            .position(|frame| Arc::get_mut(frame).is_some());
        let at = idle.unwrap_or_else(|| {
            let buffer = self.frames.len() as u32;
            self.frames
                .push(Arc::new(Frame::new(sps.mb_width, sps.mb_height, buffer)));
            self.frames.len() - 1
        });
        if let Some(frame) = Arc::get_mut(&mut self.frames[at]) {
            frame.crop = sps.crop;
            frame.poc = poc;
            frame.number = self.pictures;
        }
        self.pictures += 1;
        Arc::clone(&self.frames[at])
    }
}

/// Whether the picture has memory_management_control_operation 5.
fn resets(header: &SliceHeader) -> bool {
    matches!(&header.marking, Marking::Adaptive(list) if list.contains(&Mmco::ForgetAll))
}

/// The index of `frame` in `job.references`, where it is entered if needed.
fn slot(job: &mut Job, frame: &Arc<Frame>) -> u8 {
    let at = job
        .references
        .iter()
        .position(|reference| Arc::ptr_eq(reference, frame))
        .unwrap_or_else(|| {
            job.references.push(Arc::clone(frame));
            job.references.len() - 1
        });
    at as u8
}
