//! One picture of a recorded run, as it is looked at.

use tanada_report::{Event, Timeline};
use tanada_workloads::h264::picture_of;

/// The number of a task within its picture.
fn number_of(task: u64) -> u32 {
    (task & u64::from(u32::MAX)) as u32
}

/// Tasks that lie around a picture's reconstruction and may be far from it in time.
const AROUND: [&str; 3] = ["entropy", "build", "output"];

/// What tasks of other pictures are called.
const OTHERS: &str = "other pictures";

/// The stretch of time in which `picture` is reconstructed, from 0 on, with all tasks that ran in it.
///
/// Several pictures are on their way at once. Tasks of the others keep their groups, which mean the same in every picture, and share
/// one name. Tasks are numbered within their pictures.
pub(super) fn of_picture(recorded: &Timeline, picture: u64) -> Timeline {
    let Timeline {
        label,
        policy,
        unit,
        workers,
        ..
    } = recorded;
    let mut shown = Timeline::new(label, policy, *unit, *workers);
    shown.engine = recorded.engine;
    shown.picture = Some(picture);
    let name = |event: &Event| recorded.names[event.name as usize].as_str();
    let own = |event: &Event| picture_of(event.task) == picture;
    let inner = || {
        recorded
            .events
            .iter()
            .filter(|event| own(event) && !AROUND.contains(&name(event)))
    };
    let Some(begin) = inner().map(|event| event.start).min() else {
        return shown;
    };
    let end = inner().map(|event| event.end).max().unwrap_or(begin);

    let inside = |event: &Event| event.end > begin && event.start < end;
    for event in recorded.events.iter().filter(inside) {
        let name = if own(&event) { name(&event) } else { OTHERS };
        let name = shown.intern(name);
        let (start, end) = (event.start.max(begin) - begin, event.end.min(end) - begin);
        let task = u64::from(number_of(event.task));
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
        let shown = of_picture(&timeline, 5);
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
            of_picture(&recorded(&[(0, 4, "rear", 1, 2)]), 5)
                .events
                .is_empty()
        );
    }
}
