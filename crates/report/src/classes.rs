//! The modes by which a chart can be coloured, and the classes (a label and a colour each) of each mode.

use std::collections::{BTreeSet, HashMap};

use crate::charts::distinct;
use crate::colours::{self, Rgb};
use crate::schema::{Event, Timeline};

/// The property by which the bars of a Gantt chart are coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ColourBy {
    /// S group: bars of one colour ran on the worker that has their code and data in its cache.
    #[default]
    SGroup,
    /// T group: bars of one colour were meant to run close in time.
    TGroup,
    /// The name of the task: [`Timeline::names`].
    Name,
    /// The place from which the worker got the task.
    Origin,
}

impl ColourBy {
    /// All modes in the order of the page's switch.
    pub const ALL: [ColourBy; 4] = [
        ColourBy::SGroup,
        ColourBy::TGroup,
        ColourBy::Name,
        ColourBy::Origin,
    ];

    /// Returns the word on the page's switch.
    pub fn label(self) -> &'static str {
        match self {
            ColourBy::SGroup => "S group",
            ColourBy::TGroup => "T group",
            ColourBy::Name => "stage",
            ColourBy::Origin => "origin",
        }
    }
}

/// One colour and its meaning.
pub(crate) struct Class {
    pub(crate) label: String,
    pub(crate) colour: Rgb,
}

/// The classes of several timelines in one mode, by number or by first occurrence.
pub(crate) struct Classes {
    pub(crate) by: ColourBy,
    pub(crate) list: Vec<Class>,
    /// By group number or origin code, the index in `list`.
    numbers: HashMap<u32, usize>,
    /// By stage name, the index in `list`.
    names: HashMap<String, usize>,
}

impl Classes {
    /// Returns the classes that occur in `timelines`.
    pub(crate) fn of(by: ColourBy, timelines: &[&Timeline]) -> Classes {
        let mut classes = Classes {
            by,
            list: Vec::new(),
            numbers: HashMap::new(),
            names: HashMap::new(),
        };
        if by == ColourBy::Name {
            let names = timelines.iter().flat_map(|timeline| &timeline.names);
            for (index, name) in distinct(names).into_iter().enumerate() {
                classes.names.insert(name.clone(), index);
                classes.list.push(Class {
                    label: name.clone(),
                    colour: colours::kind(index),
                });
            }
            return classes;
        }
        let numbers: BTreeSet<u32> = timelines
            .iter()
            .flat_map(|timeline| timeline.events.iter())
            .map(|event| number(by, &event))
            .collect();
        let largest = numbers.last().copied().unwrap_or(0);
        for number in numbers {
            classes.numbers.insert(number, classes.list.len());
            classes.list.push(numbered(by, number, largest));
        }
        classes
    }

    /// Returns the index in `list` of the class of an event of `timeline`.
    pub(crate) fn index(&self, timeline: &Timeline, event: &Event) -> usize {
        let found = match self.by {
            ColourBy::Name => timeline
                .names
                .get(event.name as usize)
                .and_then(|name| self.names.get(name)),
            by => self.numbers.get(&number(by, event)),
        };
        *found.expect("the classes were made of the same timelines, which were validated")
    }
}

/// Returns the number that determines an event's class; all stolen tasks have the same.
fn number(by: ColourBy, event: &Event) -> u32 {
    match by {
        ColourBy::SGroup => event.s,
        ColourBy::TGroup => event.t,
        ColourBy::Name => event.name,
        ColourBy::Origin => event.origin.code().min(4),
    }
}

fn numbered(by: ColourBy, number: u32, largest: u32) -> Class {
    const ORIGINS: [&str; 5] = ["handed on", "own queue", "pool", "mailbox", "stolen"];
    let (label, colour) = match by {
        ColourBy::SGroup => (format!("S{number}"), colours::s_group(number)),
        ColourBy::TGroup => (format!("T{number}"), colours::t_group(number, largest)),
        _ => (
            ORIGINS[number.min(4) as usize].to_owned(),
            colours::origin(number),
        ),
    };
    Class { label, colour }
}
