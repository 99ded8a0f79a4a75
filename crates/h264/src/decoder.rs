//! The decoder: from NAL units to jobs and to the output order.

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

/// Limits of what a stream may request, checked before memory is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Macroblocks in a picture; default: the limit of level 6.2 (Table A-1). All reference frames together may have five times as many, as
    /// in that level.
    pub max_macroblocks: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_macroblocks: 139_264,
        }
    }
}

/// A received parameter set, or the reason why it cannot be used.
enum Received<T> {
    Usable(Arc<T>),
    /// The error, until a slice that refers to the set has reported it.
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
    /// The header of the picture's first slice.
    header: SliceHeader,
    poc: Poc,
}

/// Decodes entropy codes and parameter sets, marks reference pictures and determines the output order; touches no pixel.
///
/// The memory of jobs and frames is reused as soon as the decoder holds the only reference to it, so that after the first pictures hardly
/// anything is allocated. The caller bounds the memory by dropping finished jobs and by taking output: the decoder itself holds at most 16
/// references, 16 frames that wait for output, and one picture in work.
pub struct Decoder {
    limits: Limits,
    sps: Vec<Option<Received<Sps>>>,
    pps: Vec<Option<Received<Pps>>>,
    active: Option<Arc<Sps>>,
    references: References,
    output: Output,
    poc: PocState,
    previous_ref_frame_num: u32,
    /// The picture decoded last, from which lost macroblocks are concealed.
    previous: Option<Arc<Frame>>,
    current: Option<Picture>,
    finished: Option<Arc<Job>>,
    errors: VecDeque<Error>,
    rbsp: Rbsp,
    /// The unit in `rbsp` is a slice of the next picture.
    pending: Option<Loaded>,
    context: Context,
    frames: Vec<Arc<Frame>>,
    jobs: Vec<Arc<Job>>,
    /// Placeholder for the frame of an idle job.
    nothing: Arc<Frame>,
    pictures: u64,
    buffers: u32,
    missing_idr_reported: bool,
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
    /// Returns a decoder without any state of a stream.
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
            missing_idr_reported: false,
        }
    }

    /// Parses up to the end of the next picture and returns its job.
    ///
    /// `Some(Err(_))` reports an error; the next call continues behind it. `None` is the end of the stream: then
    /// [`next_output`](Self::next_output) returns all frames that are left. Jobs come in decoding order, and the references of a job are
    /// the frames of earlier jobs.
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

    /// Returns the next frame in output order, or `None` if it is not known yet. Call it after each picture from
    /// [`next_picture`](Self::next_picture) and after the end (not after an error) until it returns `None`. The frame has its pixels only
    /// once the stages of its job have run.
    pub fn next_output(&mut self) -> Option<Arc<Frame>> {
        self.output.next()
    }

    fn unit(&mut self, unit: NalUnit<'_>) {
        let header = unit.bytes[0];
        let offset = unit.offset as u64;
        if header & 0x80 != 0 {
            return self.fail(Fault::Syntax("forbidden_zero_bit is 1"), offset);
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
            _ => self.fail(Fault::Unsupported(Feature::DataPartitioning), offset),
        }
    }

    /// Reports a fault at `position` of the stream.
    fn fail(&mut self, fault: Fault, position: u64) {
        self.errors.push_back(fault.at(position));
    }

    /// Returns the position of `reader` in the stream; `offset` is that of the unit that it reads.
    fn place(rbsp: &Rbsp, reader: &BitReader<'_>, offset: u64) -> u64 {
        offset + 1 + rbsp.original_position(reader.byte_position()) as u64
    }

    /// Stores a received parameter set. Streams repeat parameter sets, often before each picture, so nothing is allocated if the set is
    /// unchanged or the memory of the old one can be reused.
    fn store<T: PartialEq>(place: &mut Option<Received<T>>, set: T) {
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
        let parsed = Sps::parse(&mut reader, self.limits.max_macroblocks);
        let parsed = parsed.map(|sps| (sps.id, sps));
        let position = Self::place(&self.rbsp, &reader, offset);
        Self::receive(&mut self.sps, parsed, position, &mut self.errors);
    }

    fn picture_parameter_set(&mut self, offset: u64) {
        let mut reader = BitReader::new(&self.rbsp);
        let parsed = Pps::parse(&mut reader).map(|pps| (pps.id, pps));
        let position = Self::place(&self.rbsp, &reader, offset);
        Self::receive(&mut self.pps, parsed, position, &mut self.errors);
    }

    /// Stores a parsed set under its id. If it has a fault at `position` of the stream, marks the id as unusable; without an id, reports
    /// the fault at once.
    fn receive<T: PartialEq>(
        sets: &mut [Option<Received<T>>],
        parsed: Result<(u8, T), (Option<u8>, Fault)>,
        position: u64,
        errors: &mut VecDeque<Error>,
    ) {
        match parsed {
            Ok((id, set)) => Self::store(&mut sets[usize::from(id)], set),
            Err((Some(id), fault)) => {
                sets[usize::from(id)] = Some(Received::Unusable(Some(fault.at(position))));
            }
            Err((None, fault)) => errors.push_back(fault.at(position)),
        }
    }

    /// Returns the set with the given id; `None` if it cannot be used, which is reported as an error once.
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

    /// Parses the slice in `rbsp`. If it belongs to the next picture, ends the current picture instead and leaves the slice pending.
    fn slice(&mut self, unit: Loaded) {
        let rbsp = std::mem::take(&mut self.rbsp);
        let mut reader = BitReader::new(&rbsp);
        let result = self.parse_slice(&mut reader, unit);
        if let Err(fault) = result {
            self.fail(fault, Self::place(&rbsp, &reader, unit.offset));
        }
        self.rbsp = rbsp;
    }

    fn parse_slice(&mut self, reader: &mut BitReader<'_>, unit: Loaded) -> Result<(), Fault> {
        let start = SliceStart::parse(reader)?;
        let offset = unit.offset;
        let missing = |what| Fault::Syntax(what).at(offset);
        let no_pps = missing("the slice refers to a missing picture parameter set");
        let Some(pps) = Self::find(&mut self.pps, start.pps_id, &mut self.errors, no_pps) else {
            return Ok(());
        };
        let no_sps = missing("the slice refers to a missing sequence parameter set");
        let Some(sps) = Self::find(&mut self.sps, pps.sps_id, &mut self.errors, no_sps) else {
            return Ok(());
        };
        let header = SliceHeader::parse(reader, start, unit.header, &sps, &pps)?;
        Fault::Unsupported(Feature::RedundantSlices).when(header.redundant_pic_cnt > 0)?;
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
        // Drop a picture without a single readable macroblock.
        let is_empty = |picture: &Picture| picture.job.slices.is_empty();
        if self.current.as_ref().is_some_and(is_empty) {
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
        // The last number is reserved for concealed macroblocks.
        Fault::Limit("number of slices").when(job.slices.len() >= usize::from(u16::MAX))?;
        let mut list = SmallVec::<[u8; 32]>::new();
        let mut complete = Ok(());
        if header.predicted {
            let (references, result) = self.references.build_list(&picture.sps, header);
            complete = result;
            let fallback = self.references.latest().or(self.previous.as_ref());
            for reference in references {
                let frame = reference.map(|reference| &reference.frame).or(fallback);
                let frame = frame.ok_or(Fault::Syntax("there is no reference picture"))?;
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
        context.parsed.add(header.first_mb as usize..end as usize);
        if header.first_mb > 0 {
            context.seams.push((header.first_mb, end));
        }
        complete.and(parsed)
    }

    /// Activates the parameter sets, fills a gap in frame_num, and takes a job and a frame for a new picture.
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
                None if self.missing_idr_reported => return Ok(()),
                None => {
                    self.missing_idr_reported = true;
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
        let count = (sps.mb_width * sps.mb_height) as usize;
        self.context.begin_picture(count);
        self.current = Some(Picture {
            job,
            sps: Arc::clone(sps),
            header: header.clone(),
            poc,
        });
        Ok(())
    }

    /// Activates `sps`, at an IDR picture.
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

    /// Inserts reference pictures for missing frame_nums (8.2.5.2). Each equals the reference picture before it, whether the encoder left
    /// the picture out or it was lost.
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
        // More than `num_ref_frames` would only push each other out.
        for back in (1..distance.min(sps.num_ref_frames.max(1) + 1)).rev() {
            let frame_num = (header.frame_num + max - back) % max;
            self.references.fill_gap(sps, frame_num, Arc::clone(&frame));
        }
        self.previous_ref_frame_num = (header.frame_num + max - 1) % max;
    }

    /// Ends the current picture: conceals what is missing, marks reference pictures and updates the output order.
    fn finish_picture(&mut self, offset: u64) {
        let Some(mut picture) = self.current.take() else {
            return;
        };
        let Some(job) = Arc::get_mut(&mut picture.job) else {
            return;
        };
        let context = &self.context;
        let parsed = context.parsed.len();
        if parsed == 0 {
            return;
        }
        if parsed < job.mbs.len() {
            let slot = self.previous.as_ref().map(|previous| slot(job, previous));
            conceal(job, &context.parsed, slot);
            self.errors.push_back(Fault::Lost(job.concealed).at(offset));
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

    /// Outputs waiting pictures until there is room for `frame`, then queues it (C.4.5.3). `references` must not count `frame`.
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
            let unheld = |waiting: &&Arc<Frame>| !self.references.holds(waiting);
            let only_waiting = waiting.iter().filter(unheld).count();
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

    /// Returns a job to which no other reference exists.
    fn idle_job(&mut self) -> Arc<Job> {
        let mut idle = None;
        for (at, job) in self.jobs.iter_mut().enumerate() {
            // An idle job must not hold frames, so that they can be reused.
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

    /// Returns a frame to which no other reference exists, prepared for the next picture.
    fn idle_frame(&mut self, sps: &Sps, poc: i32) -> Arc<Frame> {
        let mut frames = self.frames.iter_mut();
        let idle = frames.position(|frame| Arc::get_mut(frame).is_some());
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

/// Returns whether the picture has memory_management_control_operation 5.
fn resets(header: &SliceHeader) -> bool {
    matches!(&header.marking, Marking::Adaptive(list) if list.contains(&Mmco::ForgetAll))
}

/// Returns the index of `frame` in `job.references`, and inserts it if needed.
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
