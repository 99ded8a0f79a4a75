//! Reading returns what was written: text to binary to text, with any content.

use crate::common;

use common::{Model, from_text, model, to_binary, to_text};
use proptest::prelude::*;
use tanada_trace::{Groups, Trace};

/// Returns all records of a task.
fn records(trace: &Trace, task: u32) -> Vec<tanada_trace::Record> {
    let mut reader = trace.reader().unwrap();
    let (mut cursor, mut window, mut all) = (reader.start(task), Vec::new(), Vec::new());
    loop {
        reader.fill(&mut cursor, &mut window).unwrap();
        if window.is_empty() {
            return all;
        }
        all.extend_from_slice(&window);
    }
}

fn check(trace: &Trace, model: &Model, groups: &Groups) {
    assert_eq!(trace.len(), model.tasks.len());
    let expected = model.graph();
    for (i, task) in model.tasks.iter().enumerate() {
        let got = trace.tasks()[i];
        let (t, s) = match groups {
            Groups::None => (0, 0),
            Groups::Plain => (task.t, task.s),
            Groups::Named(name) => task
                .groupings
                .iter()
                .find(|g| g.0 == *name)
                .map_or((0, 0), |g| (g.1, g.2)),
        };
        assert_eq!(
            (got.id, got.t, got.s, got.depth),
            (task.id, t, s, task.depth)
        );
        assert_eq!(trace.name(i as u32), task.name.as_deref().unwrap_or(""));
        for (name, value) in &task.hints {
            assert_eq!(trace.hint(i as u32, name), Some(value.as_str()));
        }
        assert_eq!(trace.hint(i as u32, "no-such-hint"), None);
        let edges: Vec<_> = trace
            .successors(i as u32)
            .iter()
            .map(|e| (e.to() as usize, e.is_fork()))
            .collect();
        assert_eq!(edges, expected[i]);
        let waits = expected.iter().flatten().filter(|edge| edge.0 == i).count();
        assert_eq!(got.waits as usize, waits);
        assert_eq!(records(trace, i as u32), task.records);
    }
    assert_eq!(
        trace.records(),
        model
            .tasks
            .iter()
            .map(|task| task.records.len() as u64)
            .sum::<u64>()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 300 }))]

    #[test]
    fn content_survives_both_forms(model in model()) {
        let text = to_text(&model);
        let binary = to_binary(&model);
        let mut groups = vec![Groups::Plain, Groups::None];
        groups.extend(model.groupings().into_iter().map(Groups::Named));
        for groups in &groups {
            check(&Trace::parse(&text, "text", groups).unwrap(), &model, groups);
            check(&Trace::parse(&binary, "binary", groups).unwrap(), &model, groups);
        }
        // Text to binary has the same bytes as writing binary directly; then back to text.
        prop_assert!(common::text_to_binary(&text) == binary);
        let again = common::binary_to_text(&binary);
        prop_assert_eq!(from_text(&again), from_text(&text));
        prop_assert!(common::text_to_binary(&again) == binary);
    }

    #[test]
    fn any_order_of_edges_and_tasks(model in model(), seed in any::<u64>()) {
        let text = common::to_text_edges_anywhere(&model, seed);
        check(&Trace::parse(text.as_bytes(), "text", &Groups::Plain).unwrap(), &model, &Groups::Plain);
    }
}

#[test]
fn a_trace_without_tasks() {
    let model = Model::default();
    check(
        &Trace::parse(b"tanada-trace 1", "text", &Groups::Plain).unwrap(),
        &model,
        &Groups::Plain,
    );
    check(
        &Trace::parse(&to_binary(&model), "binary", &Groups::None).unwrap(),
        &model,
        &Groups::None,
    );
    let error = Trace::parse(b"tanada-trace 1\n", "text", &Groups::Named("a".into())).unwrap_err();
    assert!(error.is_usage());
}

#[test]
fn a_task_of_many_blocks() {
    // Without any pattern, so that each record takes nearly the most bytes possible.
    let mut state = 7_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 8
    };
    let mut model = Model::default();
    for id in 0..3 {
        let records = (0..70_000)
            .map(|_| tanada_trace::Record::read(random(), 1 + (random() as u32 & 0xff_ffff)))
            .collect();
        model.tasks.push(common::TaskModel {
            id,
            records,
            ..common::TaskModel::default()
        });
    }
    let binary = to_binary(&model);
    assert!(binary.len() > 30 * (64 << 10));
    check(
        &Trace::parse(&binary, "binary", &Groups::Plain).unwrap(),
        &model,
        &Groups::Plain,
    );
}

#[test]
fn loops_across_windows() {
    // Loops of all periods up to beyond the longest, each longer than a window.
    for period in 1..40_u64 {
        let mut records = Vec::new();
        for round in 0..1500 / period + 3 {
            for i in 0..period {
                records.push(match i % 4 {
                    0 => tanada_trace::Record::read(0x1000 * i + round * 8, 4 + i as u32),
                    1 => tanada_trace::Record::fetch(0x40 * i, 32),
                    2 => tanada_trace::Record::write((0x9000_0000 * i).wrapping_sub(round * 24), 8),
                    _ => tanada_trace::Record::compute(i + round * 2),
                });
            }
        }
        let model = Model {
            tasks: vec![common::TaskModel {
                id: 3,
                records,
                ..Default::default()
            }],
            edges: vec![],
        };
        check(
            &Trace::parse(&to_binary(&model), "binary", &Groups::Plain).unwrap(),
            &model,
            &Groups::Plain,
        );
    }
}
