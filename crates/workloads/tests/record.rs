//! Recordings: the graph is the one that runs natively, it orders all accesses that need an order, and equal input produces equal bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use tanada_runtime::{Cancel, Pool, Recorder};
use tanada_trace::{
    Groups as Selected, Kind, NewTask, Record, Sink, TextWriter, Trace, TraceError,
};
use tanada_workloads::h264::{Cut, Dependencies, Groups, Options, decode};
use tanada_workloads::pipeline::Pipeline;
use tanada_workloads::record::{
    Costs, H264Options, H264Recording, Pictures, Recorded, Region, h264,
};
use tanada_workloads::stencil::Stencil;
use tanada_workloads::tiles::{
    Caches, Groups as TileGroups, Options as TileOptions, Plan, Program, Tiled,
};
use tanada_workloads::workload::{RecordError, Recording, phase_of};
use tanada_workloads::{Purpose, Site, find, recorder_of, values_of};

/// A small stream of the decoder's own tests: 24 pictures of 5 x 4 macroblocks, with everything that the profile has.
const PATTERN: &[u8] = include_bytes!("../../h264/tests/data/pattern.264");

/// The demo: 128 pictures of 50 x 30 macroblocks.
fn demo() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/terraces_wvga.264");
    std::fs::read(path).expect("the demo stream is in the repository")
}

/// A trace as the sink received it.
#[derive(Default)]
struct Kept {
    tasks: Vec<Task>,
    /// (before, after), by number.
    edges: Vec<(u32, u32)>,
}

#[derive(PartialEq)]
struct Task {
    name: String,
    t: u32,
    s: u32,
    /// (name, T, S).
    groupings: Vec<(String, u32, u32)>,
    records: Vec<Record>,
}

impl Sink for Kept {
    fn task(&mut self, task: &NewTask<'_>) -> Result<(), TraceError> {
        assert_eq!(task.id as usize, self.tasks.len(), "numbered as declared");
        let of = |g: &tanada_trace::Grouping<'_>| (g.name.to_owned(), g.t, g.s);
        self.tasks.push(Task {
            name: task.name.unwrap_or_default().to_owned(),
            t: task.t,
            s: task.s,
            groupings: task.groupings.iter().map(of).collect(),
            records: Vec::new(),
        });
        Ok(())
    }

    fn record(&mut self, record: Record) -> Result<(), TraceError> {
        let task = self.tasks.last_mut().expect("a task comes first");
        task.records.push(record);
        Ok(())
    }

    fn edge(&mut self, from: u32, to: u32, fork: bool) -> Result<(), TraceError> {
        assert!(!fork && from < to, "{from} {to}");
        self.edges.push((from, to));
        Ok(())
    }
}

fn kept(stream: &[u8], options: &H264Options) -> (Kept, H264Recording) {
    let mut kept = Kept::default();
    let recording = h264(stream, options, &mut kept, |_, _| ControlFlow::Continue(()))
        .expect("the stream is good");
    (kept, recording)
}

fn options(cut: Cut, workers: u16) -> H264Options {
    H264Options {
        cut,
        workers,
        ..H264Options::default()
    }
}

fn some(first: u64, count: u64, every: u64) -> Pictures {
    Pictures::Every {
        first,
        count,
        every,
    }
}

/// What was done to a byte since it was last written, and by which task.
#[derive(Clone, Default)]
struct Byte {
    writer: Option<u32>,
    readers: Vec<u32>,
}

/// Bytes that two tasks without a path between them access, one of them writing: (earlier task, later task, address). `edges` are those
/// that count.
fn races(kept: &Kept, regions: &[Region], edges: &[(u32, u32)]) -> Vec<(u32, u32, u64)> {
    let count = kept.tasks.len();
    let words = count.div_ceil(64);
    let mut before = vec![0u64; count * words];
    let mut into: Vec<Vec<u32>> = vec![Vec::new(); count];
    edges.iter().for_each(|&(a, b)| into[b as usize].push(a));
    let shared: Vec<&Region> = regions.iter().filter(|region| !region.private).collect();
    let mut bytes: Vec<Vec<Byte>> = shared.iter().map(|_| Vec::new()).collect();
    let mut found = Vec::new();
    for task in 0..count {
        for &earlier in &into[task] {
            let earlier = earlier as usize;
            let (low, high) = before.split_at_mut(task * words);
            let from = &low[earlier * words..(earlier + 1) * words];
            high[..words]
                .iter_mut()
                .zip(from)
                .for_each(|(to, from)| *to |= from);
            high[earlier / 64] |= 1 << (earlier % 64);
        }
        let ordered = |earlier: u32| {
            let at = earlier as usize;
            at == task || before[task * words + at / 64] & 1 << (at % 64) != 0
        };
        for record in &kept.tasks[task].records {
            if matches!(record.kind, Kind::Compute | Kind::Fetch) {
                continue;
            }
            let Some(at) = shared
                .iter()
                .position(|r| (r.start..r.end).contains(&record.value))
            else {
                continue;
            };
            let offset = (record.value - shared[at].start) as usize;
            let (end, bytes) = (offset + record.size as usize, &mut bytes[at]);
            if bytes.len() < end {
                bytes.resize(end, Byte::default());
            }
            for (address, byte) in (record.value..).zip(&mut bytes[offset..end]) {
                let task = task as u32;
                if let Some(writer) = byte.writer.filter(|&writer| !ordered(writer)) {
                    found.push((writer, task, address));
                }
                if record.kind == Kind::Write {
                    let unordered = byte.readers.drain(..).find(|&reader| !ordered(reader));
                    found.extend(unordered.map(|reader| (reader, task, address)));
                    byte.writer = Some(task);
                } else if byte.readers.last() != Some(&task) {
                    byte.readers.push(task);
                }
            }
        }
    }
    found
}

/// Shows the first races by name.
fn shown(kept: &Kept, regions: &[Region], races: &[(u32, u32, u64)]) -> String {
    let one = |&(a, b, address): &(u32, u32, u64)| {
        let region = regions.iter().find(|r| (r.start..r.end).contains(&address));
        let (place, start) = region.map_or(("nowhere", 0), |r| (r.name.as_str(), r.start));
        let name = |task: u32| &kept.tasks[task as usize].name;
        format!(
            "{} {a} and {} {b} at {place} + {:#x}",
            name(a),
            name(b),
            address - start
        )
    };
    races.iter().take(5).map(one).collect::<Vec<_>>().join("; ")
}

/// All cuts, on numbers of workers for which `default` has rows and units.
const CUTS: [(Cut, u16); 5] = [
    (Cut::Paper, 4),
    (Cut::Macroblock, 4),
    (Cut::Row, 4),
    (Cut::Default, 2),
    (Cut::Default, 8),
];

#[test]
fn conflicting_accesses_are_ordered() {
    let demo = demo();
    for (cut, workers) in CUTS {
        let mut cases = vec![
            ("pattern", PATTERN, options(cut, workers)),
            (
                "pattern, two at once",
                PATTERN,
                H264Options {
                    ahead: 2,
                    ..options(cut, workers)
                },
            ),
            (
                "pattern, with a barrier",
                PATTERN,
                H264Options {
                    barrier: true,
                    ..options(cut, workers)
                },
            ),
            (
                "pattern, sampled",
                PATTERN,
                H264Options {
                    pictures: some(1, 7, 3),
                    ..options(cut, workers)
                },
            ),
        ];
        let fixed = H264Options {
            dependencies: Dependencies::Fixed,
            ahead: 2,
            ..options(cut, workers)
        };
        cases.push(("pattern, fixed", PATTERN, fixed));
        if matches!((cut, workers), (Cut::Paper, _) | (Cut::Default, 8)) {
            let few = H264Options {
                pictures: some(2, 4, 1),
                ..options(cut, workers)
            };
            cases.push(("demo", &demo, few));
        }
        for (name, stream, options) in cases {
            let (kept, recording) = kept(stream, &options);
            let races = races(&kept, &recording.recorded.regions, &kept.edges);
            assert!(
                races.is_empty(),
                "{cut} on {workers}, {name}: {} races: {}",
                races.len(),
                shown(&kept, &recording.recorded.regions, &races)
            );
        }
    }
}

/// The check above would find a dependency that is missing. Others are implied by paths, or are there for macroblocks that need less.
#[test]
fn a_missing_dependency_is_found() {
    for (cut, workers) in CUTS {
        let few = H264Options {
            pictures: some(0, 3, 1),
            ..options(cut, workers)
        };
        let (kept, recording) = kept(PATTERN, &few);
        let step = kept.edges.len().div_ceil(30);
        let (mut tried, mut seen) = (0, 0);
        for without in (0..kept.edges.len()).step_by(step) {
            let mut edges = kept.edges.clone();
            edges.remove(without);
            tried += 1;
            seen += usize::from(!races(&kept, &recording.recorded.regions, &edges).is_empty());
        }
        assert!(3 * seen > tried, "{cut}: {seen} of {tried} were seen");
    }
}

#[test]
fn every_access_lies_in_a_region_and_regions_are_apart() {
    for (cut, workers) in CUTS {
        let (kept, recording) = kept(PATTERN, &options(cut, workers));
        let mut regions = recording.recorded.regions.clone();
        regions.sort_by_key(|region| region.start);
        for pair in regions.windows(2) {
            assert!(pair[0].end <= pair[1].start, "{pair:?}");
        }
        let code = regions
            .iter()
            .find(|region| region.name == "code")
            .expect("there is code");
        for record in kept.tasks.iter().flat_map(|task| &task.records) {
            if record.kind == Kind::Compute {
                continue;
            }
            let end = record.value + u64::from(record.size);
            let region = regions
                .iter()
                .find(|region| region.start <= record.value && end <= region.end)
                .unwrap_or_else(|| panic!("{record:?} is nowhere"));
            assert_eq!(
                region == code,
                record.kind == Kind::Fetch,
                "{record:?} in {}",
                region.name
            );
        }
    }
}

#[test]
fn every_sample_of_every_picture_is_written_and_counts_are_those_of_the_records() {
    for (cut, workers) in CUTS {
        let (kept, recording) = kept(PATTERN, &options(cut, workers));
        assert_eq!((recording.pictures, recording.macroblocks), (24, 24 * 20));
        let frames: Vec<&Region> = recording
            .recorded
            .regions
            .iter()
            .filter(|region| region.name.starts_with("frame"))
            .collect();
        let mut written = 0;
        let mut total = (0, 0, 0, 0);
        for record in kept.tasks.iter().flat_map(|task| &task.records) {
            let size = u64::from(record.size);
            total.0 += 1;
            match record.kind {
                Kind::Compute => total.1 += record.value,
                Kind::Fetch => total.2 += size,
                Kind::Read | Kind::Write => total.3 += 1,
            }
            let in_frames = frames
                .iter()
                .any(|r| (r.start..r.end).contains(&record.value));
            written += size * u64::from(record.kind == Kind::Write && in_frames);
        }
        assert!(written >= 24 * 80 * 64 * 3 / 2, "{written}");
        let counts = recording.recorded.total;
        assert_eq!(
            (counts.tasks, counts.records, counts.cycles),
            (kept.tasks.len() as u64, total.0, total.1)
        );
        // Pieces of code are whole lines.
        assert_eq!(counts.fetched * 64, total.2);
        assert!(counts.read + counts.written >= total.3);
        assert_eq!(
            counts.touches(),
            counts.fetched + counts.read + counts.written
        );
        assert_eq!(recording.recorded.dependencies, kept.edges.len() as u64);
        let summed: u64 = recording
            .recorded
            .by_name
            .iter()
            .map(|(_, counts)| counts.cycles)
            .sum();
        assert_eq!(summed, counts.cycles);
    }
}

/// What the tasks of reconstruction are called natively, in the words of recordings.
fn word(name: &str) -> String {
    name.to_lowercase().replace(' ', "-")
}

/// Tasks that natively come beside reconstruction.
const AROUND: [&str; 3] = ["entropy", "build", "output"];

#[test]
fn the_tasks_are_those_that_run_natively_and_run_in_the_recorded_order() {
    for (cut, workers) in [
        (Cut::Paper, 2),
        (Cut::Macroblock, 2),
        (Cut::Row, 2),
        (Cut::Default, 2),
        (Cut::Default, 3),
    ] {
        for (groups, dependencies) in [
            (Groups::ToshibaA, Dependencies::Needed),
            (Groups::ToshibaB, Dependencies::Fixed),
            (Groups::Default, Dependencies::Needed),
            (Groups::None, Dependencies::Fixed),
        ] {
            // It reads all starts.
            let recorder = Recorder::keep(|_| true);
            let pool = Pool::builder()
                .policy("random-steal")
                .workers(workers.into())
                .observer(recorder.clone());
            let pool = pool.build().expect("a pool");
            let native = Options {
                cut,
                dependencies,
                groups,
                ..Options::default()
            };
            decode(&pool, PATTERN, &native, &Cancel::new(), |_| ()).expect("the stream is good");
            let timeline = recorder.take().timeline("", "", workers);
            let name = |event: &tanada_report::Event| word(&timeline.names[event.name as usize]);
            let events: Vec<_> = timeline
                .events
                .iter()
                .filter(|event| !AROUND.contains(&name(event).as_str()))
                .collect();
            let (kept, _) = kept(
                PATTERN,
                &H264Options {
                    dependencies,
                    groups,
                    ..options(cut, workers)
                },
            );
            let counted = |all: &mut dyn Iterator<Item = (String, u32, u32)>| {
                let mut counts: BTreeMap<(String, u32, u32), u32> = BTreeMap::new();
                all.for_each(|key| *counts.entry(key).or_default() += 1);
                counts
            };
            let recorded = kept.tasks.iter().filter(|task| task.name != "output");
            assert_eq!(
                counted(&mut events.iter().map(|event| (name(event), event.t, event.s))),
                counted(&mut recorded.map(|task| (task.name.clone(), task.t, task.s))),
                "{cut}, {groups}"
            );
            if groups != Groups::None {
                for task in &kept.tasks {
                    let named = task.groupings.iter().find(|named| named.0 == groups.name());
                    assert_eq!(
                        named.map(|named| (named.1, named.2)),
                        Some((task.t, task.s))
                    );
                }
            }
            // Tasks of one name were declared in the order of their indices, picture by picture. (Several that join have the same.)
            let mut of_name: BTreeMap<String, Vec<_>> = BTreeMap::new();
            for event in &events {
                of_name.entry(name(event)).or_default().push(*event);
            }
            of_name.remove("join");
            of_name
                .values_mut()
                .for_each(|events| events.sort_by_key(|event| event.task));
            let mut next: BTreeMap<&str, usize> = BTreeMap::new();
            let twin: Vec<_> = kept
                .tasks
                .iter()
                .map(|task| {
                    let at = next.entry(&task.name).or_default();
                    *at += 1;
                    of_name.get(&task.name).map(|events| events[*at - 1])
                })
                .collect();
            let mut held = 0;
            for &(a, b) in &kept.edges {
                let (Some(a), Some(b)) = (twin[a as usize], twin[b as usize]) else {
                    continue;
                };
                assert!(
                    a.end <= b.start,
                    "{} of picture {} began too early",
                    name(&b),
                    phase_of(b.task)
                );
                held += 1;
            }
            assert!(held > 0);
        }
    }
}

#[test]
fn pictures_wait_for_what_they_must_and_nothing_else() {
    let pictures = |options: &H264Options| {
        let (kept, recording) = kept(PATTERN, options);
        let outputs = kept
            .tasks
            .iter()
            .filter(|task| task.name == "output")
            .count();
        (kept, recording.pictures, outputs)
    };
    // Four at once: what comes before the fifth has ended when the fifth begins.
    let (_, count, outputs) = pictures(&options(Cut::Paper, 4));
    assert_eq!((count, outputs), (24, 20));
    let few = H264Options {
        pictures: some(3, 4, 1),
        ..options(Cut::Paper, 4)
    };
    let (loose, count, outputs) = pictures(&few);
    assert_eq!((count, outputs), (4, 0));
    let (kept, count, outputs) = pictures(&H264Options {
        barrier: true,
        ..few.clone()
    });
    assert_eq!((count, outputs), (4, 0));
    // With a barrier, no path around the end of a picture: the tasks that wait for none of their own picture wait for its three ends.
    let a_picture = kept.tasks.len() as u32 / 4;
    assert_eq!(kept.tasks.len(), loose.tasks.len());
    for task in a_picture..kept.tasks.len() as u32 {
        let waits: BTreeSet<u32> = kept
            .edges
            .iter()
            .filter(|edge| edge.1 == task)
            .map(|edge| edge.0)
            .collect();
        let picture = task / a_picture * a_picture;
        if waits.iter().all(|&wait| wait < picture) {
            let ends = picture - 3..picture;
            assert!(
                ends.clone().all(|end| waits.contains(&end)),
                "{task}: {waits:?}, {ends:?}"
            );
        }
    }
    // What is left out begins at what is asked for, and ends where the stream does.
    let sampled = H264Options {
        pictures: some(5, 100, 7),
        ..few
    };
    let (evenly, count, _) = pictures(&sampled);
    assert_eq!(count, 3);
    let these = |numbers: &[u64]| {
        pictures(&H264Options {
            pictures: Pictures::These(numbers.to_vec()),
            ..options(Cut::Paper, 4)
        })
    };
    let (listed, count, _) = these(&[5, 12, 19]);
    assert_eq!(count, 3);
    assert!(listed.edges == evenly.edges && listed.tasks == evenly.tasks);
    // At other distances, too, and each as if it were alone.
    let (several, count, _) = these(&[3, 4, 9]);
    assert_eq!(count, 3);
    let work =
        |kept: &Kept| -> Vec<usize> { kept.tasks.iter().map(|task| task.records.len()).collect() };
    let alone: Vec<usize> = [3, 4, 9]
        .iter()
        .flat_map(|&one| work(&these(&[one]).0))
        .collect();
    assert_eq!(work(&several), alone);
}

#[test]
fn equal_input_produces_equal_bytes() {
    let text = |options: &H264Options| {
        let mut writer = TextWriter::new(Vec::new()).expect("memory can be written to");
        h264(PATTERN, options, &mut writer, |_, _| {
            ControlFlow::Continue(())
        })
        .expect("the stream is good");
        writer.finish().expect("memory can be written to")
    };
    for (cut, workers) in CUTS {
        let options = options(cut, workers);
        let first = text(&options);
        assert!(first == text(&options), "{cut}");
        let trace = Trace::parse(
            &first,
            "recording",
            &Selected::Named("toshiba-b".to_owned()),
        );
        let trace = trace.expect("what is recorded can be read");
        assert_eq!(trace.groupings(), ["toshiba-a", "toshiba-b", "default"]);
    }
    let (a, b) = (options(Cut::Paper, 4), options(Cut::Macroblock, 4));
    assert!(text(&a) != text(&b));
}

#[test]
fn other_costs_change_nothing_but_computation_and_code() {
    let table = |set: &[&str]| Costs::parse(Costs::default_text(), "mpe", set).expect("right");
    let of = |costs: Costs| {
        kept(
            PATTERN,
            &H264Options {
                costs,
                ..options(Cut::Paper, 4)
            },
        )
    };
    let (plain, recording) = of(Costs::default());
    let (dear, other) = of(table(&["scale.cycles=1.6"]));
    assert_eq!(plain.edges, dear.edges);
    let ratio = other.recorded.total.cycles as f64 / recording.recorded.total.cycles as f64;
    // Cycles are whole within a task.
    assert!((ratio - 2.0).abs() < 0.001, "{ratio}");
    let (slim, other) = of(table(&["scale.code=0"]));
    assert_eq!(other.recorded.total.fetched, 0);
    assert_eq!(
        (other.recorded.total.read, other.recorded.total.cycles),
        (
            recording.recorded.total.read,
            recording.recorded.total.cycles
        )
    );
    let data = |kept: &Kept| -> Vec<(Kind, u32)> {
        let records = kept.tasks.iter().flat_map(|task| &task.records);
        let data = records.filter(|record| matches!(record.kind, Kind::Read | Kind::Write));
        data.map(|record| (record.kind, record.size)).collect()
    };
    assert!(data(&plain) == data(&slim));
}

#[test]
fn fixed_dependencies_are_the_same_for_every_picture() {
    let of = |dependencies, first| {
        let one = H264Options {
            dependencies,
            pictures: some(first, 1, 1),
            ..options(Cut::Macroblock, 4)
        };
        kept(PATTERN, &one).0.edges
    };
    // The first picture is predicted from nothing else, a later one mostly from others.
    assert_eq!(of(Dependencies::Fixed, 0), of(Dependencies::Fixed, 9));
    let first = of(Dependencies::Needed, 0);
    assert!((1..24).any(|picture| of(Dependencies::Needed, picture) != first));
}

#[test]
fn what_cannot_be_recorded_is_reported() {
    let record = |stream: &[u8], pictures: Pictures, until: u64| {
        let options = H264Options {
            pictures,
            ..options(Cut::Paper, 4)
        };
        h264(stream, &options, &mut Kept::default(), |decoded, _| {
            if decoded >= until {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    };
    let all = Pictures::default();
    assert!(matches!(
        record(b"nothing", all.clone(), 9),
        Err(RecordError::Stream(_))
    ));
    assert!(matches!(
        record(PATTERN, some(24, 1, 1), 99),
        Err(RecordError::TooShort {
            there: 24,
            first: 24
        })
    ));
    assert!(matches!(
        record(PATTERN, Pictures::These(vec![24, 25]), 99),
        Err(RecordError::TooShort {
            there: 24,
            first: 24
        })
    ));
    assert!(matches!(
        record(PATTERN, all.clone(), 3),
        Err(RecordError::Stopped)
    ));
    let broken = [
        &PATTERN[..PATTERN.len() / 2],
        &PATTERN[PATTERN.len() / 2 + 40..],
    ]
    .concat();
    let recording = record(&broken, all, u64::MAX).expect("most of it can be decoded");
    assert!(recording.stream.error_count > 0 && recording.pictures > 12);
}

const CACHES: Caches = Caches {
    own: 64 << 10,
    l1d: 8 << 10,
};

/// Records a program over tiles that is cut into several bands and strips.
fn record_tiles<P: Program>(
    options: TileOptions,
    workers: u16,
    kept: &mut Kept,
    mut seen: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<Recording, RecordError> {
    let workload = find(P::DESCRIPTION.name).expect("it is registered");
    let (size, times) = (options.size.to_string(), options.times.to_string());
    let pairs = [
        ("size", &*size),
        (P::TIMES, &*times),
        ("groups", options.groups.name()),
    ];
    let values = values_of(workload, Purpose::Record).with(&pairs);
    let mut site = Site::new(workers);
    (site.own_cache, site.l1d) = (Some(CACHES.own), Some(CACHES.l1d));
    let values = values.expect("they are right");
    recorder_of(workload)?.record(&values, &site, kept, &mut seen)
}

fn tiles_kept<P: Program>(options: TileOptions) -> (Kept, Recorded, Plan) {
    let mut kept = Kept::default();
    let on = |_| ControlFlow::Continue(());
    let recording = record_tiles::<P>(options, 4, &mut kept, on).expect("memory can be written to");
    let plan = Tiled::<P>::plan_for(options, 4, CACHES);
    (kept, recording.recorded, plan)
}

#[test]
fn passes_over_tiles_are_recorded_as_they_run() {
    let stencil = TileOptions {
        size: 384,
        times: 5,
        groups: TileGroups::None,
    };
    let pipeline = TileOptions {
        size: 384,
        times: 1,
        groups: TileGroups::Default,
    };
    let cases = [
        (
            tiles_kept::<Stencil>(stencil),
            tiles_kept::<Stencil>(stencil),
            384 * 384 * 4 * 5,
        ),
        (
            tiles_kept::<Pipeline>(pipeline),
            tiles_kept::<Pipeline>(pipeline),
            384 * 384 * 4 * 6,
        ),
    ];
    for ((kept, recorded, plan), (again, ..), result) in cases {
        let tasks = kept.tasks.len() as u64;
        assert!(plan.bands() > 2 && tasks == plan.tasks(), "{plan:?}");
        let races_found = races(&kept, &recorded.regions, &kept.edges);
        assert!(
            races_found.is_empty(),
            "{}",
            shown(&kept, &recorded.regions, &races_found)
        );
        // Without what leads to the first task of the second sweep, there are some.
        let first = plan.bands() * plan.strips();
        let mut edges = kept.edges.clone();
        edges.retain(|edge| edge.1 as usize != first);
        assert!(!races(&kept, &recorded.regions, &edges).is_empty());

        let fields: Vec<&Region> = recorded
            .regions
            .iter()
            .filter(|r| r.name.starts_with("field"))
            .collect();
        let of_fields = |record: &&Record| {
            fields
                .iter()
                .any(|r| (r.start..r.end).contains(&record.value))
        };
        let records = || kept.tasks.iter().flat_map(|task| &task.records);
        let written: u64 = records()
            .filter(|record| record.kind == Kind::Write)
            .filter(of_fields)
            .map(|record| u64::from(record.size))
            .sum();
        assert_eq!(written, result);
        for (task, twin) in kept.tasks.iter().zip(&again.tasks) {
            assert_eq!(task.records, twin.records);
            assert_eq!(task.groupings[0].0, "default");
        }
    }
}

#[test]
fn a_recording_of_tiles_can_be_stopped() {
    let options = TileOptions {
        size: 128,
        times: 4,
        groups: TileGroups::Default,
    };
    let stop = |tasks| {
        if tasks > 2 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let stopped = record_tiles::<Stencil>(options, 2, &mut Kept::default(), stop);
    assert!(matches!(stopped, Err(RecordError::Stopped)));
}
