//! Stages in any order that the documentation of `recon` allows, on one thread and on several, produce the same pixels; the pictures of a
//! stream overlap as `Job::reference_reach` allows. Debug builds also check that no stage accesses pixels that another is writing.
#![allow(unsafe_code)]

mod common;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use common::{PATTERN, PATTERN_MD5, Random, i420, md5_of};
use tanada_h264::{Decoder, Frame, Job, Limits, NalStream, Stage};
use tanada_testing::shared;

/// Returns all jobs, and all frames in output order; nothing is reconstructed yet.
fn parse(stream: &[u8], limit: usize) -> (Vec<Arc<Job>>, Vec<Arc<Frame>>) {
    let mut decoder = Decoder::new(Limits::default());
    let mut units = NalStream::new(stream);
    let (mut jobs, mut frames) = (Vec::new(), Vec::new());
    while let Some(picture) = decoder.next_picture(&mut units) {
        jobs.push(picture.unwrap());
        frames.extend(std::iter::from_fn(|| decoder.next_output()));
        if jobs.len() == limit {
            return (jobs, frames);
        }
    }
    frames.extend(std::iter::from_fn(|| decoder.next_output()));
    (jobs, frames)
}

/// A stage of a macroblock of a job: (index of the job, macroblock, stage).
type Task = (usize, u32, Stage);

struct Graph {
    tasks: Vec<Task>,
    successors: Vec<Vec<usize>>,
    waits: Vec<usize>,
}

impl Graph {
    /// Builds the dependencies of the table in `recon`, written independently.
    fn new(jobs: &[Arc<Job>]) -> Self {
        let mut tasks = Vec::new();
        let mut numbers = HashMap::new();
        for (j, job) in jobs.iter().enumerate() {
            for (mb, stage) in
                (0..job.mb_count()).flat_map(|mb| Stage::ALL.map(|stage| (mb, stage)))
            {
                numbers.insert((j, mb, stage), tasks.len());
                tasks.push((j, mb, stage));
            }
        }
        let mut graph = Graph {
            successors: vec![Vec::new(); tasks.len()],
            waits: vec![0; tasks.len()],
            tasks,
        };
        let writers: HashMap<u64, usize> = jobs
            .iter()
            .enumerate()
            .map(|(j, job)| (job.frame().number(), j))
            .collect();
        for task in 0..graph.tasks.len() {
            for before in Self::dependencies(jobs, &writers, graph.tasks[task]) {
                graph.successors[numbers[&before]].push(task);
                graph.waits[task] += 1;
            }
        }
        graph
    }

    fn dependencies(
        jobs: &[Arc<Job>],
        writers: &HashMap<u64, usize>,
        (j, mb, stage): Task,
    ) -> Vec<Task> {
        let job = &jobs[j];
        let (width, height) = (job.mb_width() as i32, job.mb_height() as i32);
        let (x, y) = (mb as i32 % width, mb as i32 / width);
        let at = |(dx, dy): (i32, i32), stage: Stage| {
            let (x, y) = (x + dx, y + dy);
            ((0..width).contains(&x) && (0..height).contains(&y)).then_some((
                j,
                (y * width + x) as u32,
                stage,
            ))
        };
        let all = |places: &[(i32, i32)], stage| {
            places
                .iter()
                .filter_map(|&place| at(place, stage))
                .collect::<Vec<_>>()
        };
        let mut references = Vec::new();
        if !job.is_intra(mb) {
            job.reference_reach(y as u32..y as u32 + 1, &mut |frame, last_row| {
                let writer = writers[&frame.number()];
                for mb in 0..(last_row + 1) * job.mb_width() {
                    references.extend(Stage::ALL.map(|stage| (writer, mb, stage)));
                }
            });
        }
        use Stage::*;
        match stage {
            LumaResidual => vec![],
            LumaPrediction if job.is_intra(mb) => {
                let mut list = all(&[(-1, 0), (-1, -1), (0, -1), (1, -1)], LumaReconstruction);
                list.extend(at((0, 0), LumaResidual));
                list
            }
            ChromaPrediction if job.is_intra(mb) => {
                all(&[(-1, 0), (-1, -1), (0, -1)], ChromaReconstruction)
            }
            LumaPrediction | ChromaPrediction => references,
            LumaReconstruction => vec![(j, mb, LumaResidual), (j, mb, LumaPrediction)],
            ChromaReconstruction => vec![(j, mb, ChromaPrediction)],
            LumaDeblocking => {
                let mut list = all(
                    &[(0, 0), (1, 0), (-1, 1), (0, 1), (1, 1)],
                    LumaReconstruction,
                );
                list.extend(all(&[(-1, 0), (0, -1), (1, -1)], LumaDeblocking));
                list
            }
            CbDeblocking | CrDeblocking => {
                let mut list = all(&[(0, 0), (1, 0), (0, 1), (1, 1)], ChromaReconstruction);
                list.extend(all(&[(-1, 0), (0, -1), (1, -1)], stage));
                list
            }
        }
    }

    /// Runs all tasks on `threads` threads, each of which takes a random ready task.
    fn run(self, jobs: &[Arc<Job>], threads: usize, seed: u64) {
        let ready: Vec<usize> = (0..self.tasks.len())
            .filter(|&task| self.waits[task] == 0)
            .collect();
        let left = self.tasks.len();
        let state = Mutex::new((ready, self.waits, left, Random(seed)));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let task = {
                            let mut guard = state.lock().unwrap();
                            let (ready, _, left, random) = &mut *guard;
                            if *left == 0 {
                                return;
                            }
                            if ready.is_empty() {
                                drop(guard);
                                std::thread::yield_now();
                                continue;
                            }
                            let pick = random.below(ready.len());
                            ready.swap_remove(pick)
                        };
                        let (j, mb, stage) = self.tasks[task];
                        // SAFETY: the graph holds the order of `recon`; `waits`, behind a lock, orders the threads.
                        unsafe { jobs[j].run_stage(stage, mb) };
                        let mut guard = state.lock().unwrap();
                        let (ready, waits, left, _) = &mut *guard;
                        for &successor in &self.successors[task] {
                            waits[successor] -= 1;
                            if waits[successor] == 0 {
                                ready.push(successor);
                            }
                        }
                        *left -= 1;
                    }
                });
            }
        });
    }
}

#[test]
fn any_allowed_order_has_the_same_pixels() {
    for (threads, seed) in [(1, 1), (1, 2), (1, 3), (2, 4), (4, 5), (4, 6)] {
        let (jobs, frames) = parse(PATTERN, usize::MAX);
        Graph::new(&jobs).run(&jobs, threads, seed);
        let frames: Vec<_> = frames.iter().map(|frame| i420(frame)).collect();
        assert_eq!(
            md5_of(&frames),
            PATTERN_MD5,
            "{threads} threads, seed {seed}"
        );
    }
}

#[test]
fn any_allowed_order_has_the_same_pixels_in_conformance_streams() {
    let Some(folder) = shared() else { return };
    for name in [
        "BASQP1_Sony_C.jsv",
        "SVA_BA1_B.264",
        "CI_MW_D.264",
        "MR1_BT_A.h264",
        "BA1_FT_C.264",
    ] {
        let stream = std::fs::read(folder.join("streams/conformance").join(name)).unwrap();
        let (jobs, _) = parse(&stream, 6);
        Graph::new(&jobs).run(&jobs, 4, 7);
        let (in_order, _) = parse(&stream, 6);
        assert!(!jobs.is_empty());
        for (number, (job, other)) in jobs.iter().zip(&in_order).enumerate() {
            // SAFETY: this thread alone has the job, and reconstructs pictures in decoding order.
            unsafe { other.reconstruct() };
            assert!(
                i420(job.frame()) == i420(other.frame()),
                "{name}, picture {number}"
            );
        }
    }
}

#[test]
fn stages_that_are_not_needed_are_rare_in_the_first_picture_and_common_later() {
    let (jobs, _) = parse(PATTERN, usize::MAX);
    let needed = |job: &Job, stage| {
        (0..job.mb_count())
            .filter(|&mb| job.needs(mb, stage))
            .count()
    };
    for job in &jobs {
        assert_eq!(needed(job, Stage::LumaPrediction), job.mb_count() as usize);
        assert_eq!(
            needed(job, Stage::CbDeblocking),
            needed(job, Stage::CrDeblocking)
        );
    }
    let total = |stage| jobs.iter().map(|job| needed(job, stage)).sum::<usize>();
    let all: usize = jobs.iter().map(|job| job.mb_count() as usize).sum();
    for stage in [
        Stage::LumaResidual,
        Stage::LumaReconstruction,
        Stage::LumaDeblocking,
        Stage::ChromaReconstruction,
    ] {
        assert!(total(stage) > 0 && total(stage) < all, "{stage:?}");
    }
}
