//! The part of a recorded run that a chart shows.

use tanada_report::{Event, Timeline};
use tanada_workloads::workload::{Phase, phase_of};

/// Tasks of a chart of the middle of a run: a page holds a chart a policy.
const MOST: usize = 4_000;

/// Returns the middle of a run, as far as a chart shows it, from 0 on.
pub(super) fn middle(recorded: &Timeline) -> Timeline {
    let mut events: Vec<Event> = recorded.events.iter().collect();
    let left_out = events.len().saturating_sub(MOST);
    if left_out == 0 {
        return recorded.clone();
    }
    events.sort_by_key(|event| event.start);
    let shown = &events[left_out / 2..left_out / 2 + MOST];
    let begin = shown.iter().map(|event| event.start).min().unwrap_or(0);
    let label = format!(
        "{}, {MOST} of {} tasks from the middle",
        recorded.label,
        events.len()
    );
    let mut middle = Timeline::new(&label, &recorded.policy, recorded.unit, recorded.workers);
    middle.engine = recorded.engine;
    for event in shown {
        let name = middle.intern(&recorded.names[event.name as usize]);
        let (start, end) = (event.start - begin, event.end - begin);
        middle.events.push(Event {
            name,
            start,
            end,
            ..*event
        });
    }
    middle
}

/// Returns the stretch of time in which tasks of `phase` run, from 0 on, with all tasks that ran in it.
///
/// Several phases are on their way at once. Tasks of the others keep their groups, which mean the same in every phase, and share one name;
/// so do the phase's own loose tasks, which run inside this stretch in one run and outside in another. The tasks with names of their own
/// are thus the same in every chart of the phase. Tasks are numbered within their phases.
pub(super) fn of_phase(recorded: &Timeline, phase: &Phase) -> Timeline {
    let Timeline { label, policy, .. } = recorded;
    let mut shown = Timeline::new(label, policy, recorded.unit, recorded.workers);
    shown.engine = recorded.engine;
    shown.picture = Some(phase.number);
    let name = |event: &Event| recorded.names[event.name as usize].as_str();
    let own =
        |event: &Event| phase_of(event.task) == phase.number && !phase.loose.contains(&name(event));
    let inner = || recorded.events.iter().filter(own);
    let Some(begin) = inner().map(|event| event.start).min() else {
        return shown;
    };
    let end = inner().map(|event| event.end).max().unwrap_or(begin);

    let inside = |event: &Event| event.end > begin && event.start < end;
    for event in recorded.events.iter().filter(inside) {
        let name = if own(&event) {
            name(&event)
        } else {
            phase.others
        };
        let name = shown.intern(name);
        let (start, end) = (event.start.max(begin) - begin, event.end.min(end) - begin);
        let task = event.task & u64::from(u32::MAX);
        shown.events.push(Event {
            task,
            name,
            start,
            end,
            ..event
        });
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanada_report::{Origin, Unit};

    const OTHERS: &str = "other pictures";

    const PICTURE: Phase = Phase {
        number: 5,
        around: 4,
        loose: &["entropy", "build", "output"],
        others: OTHERS,
        noun: "picture",
    };

    fn recorded(tasks: &[(u16, u64, &str, u64, u64)]) -> Timeline {
        let mut timeline = Timeline::new("fcfs, picture 5", "fcfs", Unit::Ns, 2);
        for &(worker, picture, name, start, end) in tasks {
            let name = timeline.intern(name);
            let task = (picture << 32) | 7;
            timeline.events.push(Event {
                worker,
                task,
                name,
                t: 3,
                s: 2,
                start,
                end,
                origin: Origin::Own,
            });
        }
        timeline
    }

    #[test]
    fn others_share_a_name_and_what_lies_outside_is_cut_off() {
        let timeline = recorded(&[
            (0, 5, "entropy", 0, 500),
            (0, 4, "rear", 900, 1_200),
            (0, 5, "front", 1_200, 2_000),
            (1, 5, "front", 1_000, 1_400),
            (1, 6, "entropy", 1_400, 1_600),
            (1, 4, "rear", 1_610, 1_700),
            (1, 6, "build", 9_000, 9_100),
            (1, 5, "rear", 9_100, 9_200),
            (0, 6, "front", 9_150, 12_000),
        ]);
        let shown = of_phase(&timeline, &PICTURE);
        let lines: Vec<_> = shown
            .events
            .iter()
            .map(|e| {
                (
                    e.worker,
                    shown.names[e.name as usize].as_str(),
                    e.t,
                    e.start,
                    e.end,
                )
            })
            .collect();
        let wanted = [
            (0, OTHERS, 3, 0, 200),
            (0, "front", 3, 200, 1_000),
            (1, "front", 3, 0, 400),
            (1, OTHERS, 3, 400, 600),
            (1, OTHERS, 3, 610, 700),
            (1, OTHERS, 3, 8_000, 8_100),
            (1, "rear", 3, 8_100, 8_200),
            (0, OTHERS, 3, 8_150, 8_200),
        ];
        assert_eq!(lines, wanted);
        assert_eq!(shown.picture, Some(5));
        assert!(shown.events.iter().all(|event| event.task == 7));
    }

    #[test]
    fn a_picture_without_tasks_is_an_empty_chart() {
        assert!(
            of_phase(&recorded(&[(0, 4, "rear", 1, 2)]), &PICTURE)
                .events
                .is_empty()
        );
    }

    #[test]
    fn the_middle_of_a_long_run_begins_at_0() {
        let tasks = (0..MOST as u64 + 100).map(|at| (0, 0, "sweep", at * 10, at * 10 + 5));
        let shown = middle(&recorded(&tasks.collect::<Vec<_>>()));
        assert_eq!(shown.events.len(), MOST);
        assert_eq!(shown.span(), Some((0, (MOST as u64 - 1) * 10 + 5)));
        assert!(shown.label.contains("4000 of 4100"), "{}", shown.label);
        let short = recorded(&[(0, 0, "sweep", 7, 9)]);
        assert_eq!(middle(&short), short);
    }
}
