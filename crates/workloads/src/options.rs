//! Options of workloads as data: a command line, a test or a bench reads the same table.

use std::path::{Path, PathBuf};

/// A value that an option takes by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name that help shows and results carry.
    pub name: &'static str,
    /// Older spellings, which are accepted and never shown.
    pub aliases: &'static [&'static str],
}

impl Name {
    /// Returns a name without other spellings.
    pub const fn new(name: &'static str) -> Name {
        Name { name, aliases: &[] }
    }

    fn is(&self, text: &str) -> bool {
        self.name == text || self.aliases.contains(&text)
    }
}

/// Names the variants of an enumeration as an option takes them: `ALL`, `NAMES`, `name`, `Display` and `FromStr`.
///
/// `named!(Cut, "cut", Row = "row", Macroblock = "macroblock" | "mb")`: `mb` is an older spelling. Errors call a value `cut`.
macro_rules! named {
    ($type:ident, $what:literal, $($variant:ident = $name:literal $(| $alias:literal)*),+ $(,)?) => {
        impl $type {
            /// All of them.
            pub const ALL: [$type; [$($name),+].len()] = [$($type::$variant),+];

            /// Their names, in the same order.
            pub const NAMES: [$crate::options::Name; [$($name),+].len()] =
                [$($crate::options::Name { name: $name, aliases: &[$($alias),*] }),+];

            /// Returns the name that the command line knows.
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                $crate::options::place_of(text, $what, &$type::NAMES).map(|at| $type::ALL[at])
            }
        }
    };
}
pub(crate) use named;

/// Returns the place in `names` of the one that is spelled `text`.
///
/// # Errors
/// Without one: a message that calls the value `what` and lists the names.
pub(crate) fn place_of(text: &str, what: &str, names: &[Name]) -> Result<usize, String> {
    let place = names.iter().position(|name| name.is(text));
    place.ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|name| name.name).collect();
        format!("unknown {what} \"{text}\"; there are {}", names.join(", "))
    })
}

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Nothing: the option is there or not.
    Switch,
    /// A whole number, from the first to the second.
    Count(u64, u64),
    /// One of these names.
    Named(&'static [Name]),
    /// The name of a file.
    Path,
    /// Any text. The option may be given several times.
    Texts,
}

/// What options are read for: a few options, and some defaults, differ between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The workload is run on this machine.
    Run,
    /// The workload is recorded into a trace.
    Record,
}

/// One option of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// The flag without its dashes: the key of [`Values`].
    pub flag: &'static str,
    /// Older spellings of the flag.
    pub aliases: &'static [&'static str],
    /// What stands for the value in help.
    pub placeholder: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// What the option takes.
    pub kind: Kind,
    /// The default in runs, or `None`: runs do not have this option. `Some("")`: there is no default.
    run: Option<&'static str>,
    /// The same in recordings.
    record: Option<&'static str>,
    /// Whether the option is refused for a run without tasks.
    pub of_tasks: bool,
    /// Whether the value stands without a flag.
    pub positional: bool,
}

impl OptionSpec {
    /// Returns the option `--flag PLACEHOLDER`, without a default, in runs and in recordings. The placeholder of a switch is empty.
    pub const fn new(
        flag: &'static str,
        placeholder: &'static str,
        kind: Kind,
        help: &'static str,
    ) -> OptionSpec {
        OptionSpec {
            flag,
            aliases: &[],
            placeholder,
            help,
            kind,
            run: Some(""),
            record: Some(""),
            of_tasks: false,
            positional: false,
        }
    }

    /// Returns this option with a default, in runs and in recordings.
    pub const fn default(mut self, value: &'static str) -> OptionSpec {
        if self.run.is_some() {
            self.run = Some(value);
        }
        if self.record.is_some() {
            self.record = Some(value);
        }
        self
    }

    /// Returns this option with another default in recordings: usually a smaller size, because a simulation takes some hundred times as
    /// long as a run.
    pub const fn default_in_recordings(mut self, value: &'static str) -> OptionSpec {
        self.record = Some(value);
        self
    }

    /// Returns this option for runs only.
    pub const fn run_only(mut self) -> OptionSpec {
        self.record = None;
        self
    }

    /// Returns this option for recordings only.
    pub const fn record_only(mut self) -> OptionSpec {
        self.run = None;
        self
    }

    /// Returns this option as an option of the tasks, which is refused for a run without tasks.
    pub const fn of_tasks(mut self) -> OptionSpec {
        self.of_tasks = true;
        self
    }

    /// Returns this option without its flag: the value stands alone, as the name of an input file does.
    pub const fn positional(mut self) -> OptionSpec {
        self.positional = true;
        self
    }

    /// Returns this option with older spellings of the flag, which are accepted and never shown.
    pub const fn aliases(mut self, aliases: &'static [&'static str]) -> OptionSpec {
        self.aliases = aliases;
        self
    }

    /// Returns whether the option exists for `purpose`.
    pub fn is_for(&self, purpose: Purpose) -> bool {
        self.entry(purpose).is_some()
    }

    /// Returns the default for `purpose`; `None`: the option has none.
    pub fn default_for(&self, purpose: Purpose) -> Option<&'static str> {
        self.entry(purpose).filter(|text| !text.is_empty())
    }

    fn entry(&self, purpose: Purpose) -> Option<&'static str> {
        match purpose {
            Purpose::Run => self.run,
            Purpose::Record => self.record,
        }
    }

    /// Parses and returns a value of this option.
    fn parse(&self, text: &str) -> Result<Value, String> {
        match self.kind {
            Kind::Switch => match text {
                "true" => Ok(Value::Switch(true)),
                "false" => Ok(Value::Switch(false)),
                _ => Err(format!("--{}: \"{text}\" is not true or false", self.flag)),
            },
            Kind::Count(min, max) => match text.parse() {
                Ok(count) if (min..=max).contains(&count) => Ok(Value::Count(Some(count))),
                _ => Err(format!(
                    "--{}: \"{text}\" is not a number from {min} to {max}",
                    self.flag
                )),
            },
            Kind::Named(names) => {
                let place = place_of(text, &format!("value of --{}", self.flag), names)?;
                Ok(Value::Name(names[place].name))
            }
            Kind::Path => Ok(Value::Path(Some(PathBuf::from(text)))),
            Kind::Texts => Ok(Value::Texts(vec![text.to_owned()])),
        }
    }

    fn absent(&self) -> Value {
        match self.kind {
            Kind::Switch => Value::Switch(false),
            Kind::Count(..) => Value::Count(None),
            Kind::Named(names) => Value::Name(names[0].name),
            Kind::Path => Value::Path(None),
            Kind::Texts => Value::Texts(Vec::new()),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Switch(bool),
    Count(Option<u64>),
    Name(&'static str),
    Path(Option<PathBuf>),
    Texts(Vec<String>),
}

#[derive(Clone, Debug)]
struct Entry {
    spec: &'static OptionSpec,
    value: Value,
    given: bool,
}

/// The values of a workload's options.
///
/// The functions that return a value panic if the workload has no such option for the [`Purpose`], or one of another kind: a table and the
/// code that reads it stand in one module.
#[derive(Clone, Debug)]
pub struct Values {
    purpose: Purpose,
    entries: Vec<Entry>,
}

impl Values {
    /// Returns the defaults of all options of `specs` that exist for `purpose`.
    ///
    /// # Panics
    /// A default is not a value of its option.
    pub fn new(specs: &'static [OptionSpec], purpose: Purpose) -> Values {
        let specs = specs.iter().filter(|spec| spec.is_for(purpose));
        let entries = specs.map(|spec| Entry {
            spec,
            value: match spec.default_for(purpose) {
                Some(text) => spec.parse(text).expect("a default is a value"),
                None => spec.absent(),
            },
            given: false,
        });
        Values {
            purpose,
            entries: entries.collect(),
        }
    }

    /// Returns the purpose of the values.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Sets the option `flag`. A text of [`Kind::Texts`] is added to those that are there.
    ///
    /// # Errors
    /// Returns a message that names the option and lists what it takes, or lists the options if there is none of this name.
    pub fn set(&mut self, flag: &str, text: &str) -> Result<(), String> {
        let purpose = self.purpose;
        let known = |entry: &Entry| entry.spec.flag == flag || entry.spec.aliases.contains(&flag);
        let Some(place) = self.entries.iter().position(known) else {
            let flags: Vec<&str> = self.entries.iter().map(|entry| entry.spec.flag).collect();
            let what = match purpose {
                Purpose::Run => "a run",
                Purpose::Record => "a recording",
            };
            return Err(format!(
                "{what} has no option \"{flag}\"; there are {}",
                flags.join(", ")
            ));
        };
        let entry = &mut self.entries[place];
        let value = entry.spec.parse(text)?;
        match (&mut entry.value, value) {
            (Value::Texts(all), Value::Texts(more)) => all.extend(more),
            (old, value) => *old = value,
        }
        entry.given = true;
        Ok(())
    }

    /// Sets the file of a [`Kind::Path`], whose name need not be text.
    ///
    /// # Panics
    /// See [`Values`].
    pub fn set_path(&mut self, flag: &str, path: &Path) {
        let entry = self.entries.iter_mut();
        let entry = entry
            .filter(|entry| entry.spec.kind == Kind::Path)
            .find(|entry| entry.spec.flag == flag);
        let entry = entry.unwrap_or_else(|| panic!("there is no path --{flag}"));
        entry.value = Value::Path(Some(path.to_owned()));
        entry.given = true;
    }

    /// Returns these values with several options set: `[("size", "64"), ("sweeps", "3")]`.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn with(mut self, pairs: &[(&str, &str)]) -> Result<Values, String> {
        pairs
            .iter()
            .try_for_each(|(flag, text)| self.set(flag, text))?;
        Ok(self)
    }

    fn entry(&self, flag: &str) -> &Entry {
        let mut entries = self.entries.iter();
        entries
            .find(|entry| entry.spec.flag == flag)
            .unwrap_or_else(|| panic!("there is no option --{flag} for {:?}", self.purpose))
    }

    /// Returns whether there is an option `flag`.
    pub fn has(&self, flag: &str) -> bool {
        self.entries.iter().any(|entry| entry.spec.flag == flag)
    }

    /// Returns whether the option `flag` was set, rather than left at its default.
    ///
    /// # Panics
    /// See [`Values`].
    pub fn is_given(&self, flag: &str) -> bool {
        self.entry(flag).given
    }

    /// Returns whether the switch `flag` is on.
    ///
    /// # Panics
    /// See [`Values`].
    pub fn switch(&self, flag: &str) -> bool {
        match self.entry(flag).value {
            Value::Switch(on) => on,
            _ => panic!("--{flag} is no switch"),
        }
    }

    /// Returns the count of `flag`, which has a default.
    ///
    /// # Panics
    /// See [`Values`].
    pub fn count(&self, flag: &str) -> u64 {
        let count = self.count_if_any(flag);
        count.unwrap_or_else(|| panic!("--{flag} has no default"))
    }

    /// Returns the count of `flag`; `None`: it has no default and was not set.
    ///
    /// # Panics
    /// See [`Values`].
    pub fn count_if_any(&self, flag: &str) -> Option<u64> {
        match self.entry(flag).value {
            Value::Count(count) => count,
            _ => panic!("--{flag} is no count"),
        }
    }

    /// Returns the name that was chosen for `flag`, never an alias of it.
    ///
    /// # Panics
    /// See [`Values`].
    pub fn name(&self, flag: &str) -> &'static str {
        match self.entry(flag).value {
            Value::Name(name) => name,
            _ => panic!("--{flag} takes no name"),
        }
    }

    /// Returns the file of `flag`, if there is one.
    ///
    /// # Panics
    /// See [`Values`].
    pub fn path(&self, flag: &str) -> Option<&Path> {
        match &self.entry(flag).value {
            Value::Path(path) => path.as_deref(),
            _ => panic!("--{flag} is no path"),
        }
    }

    /// Returns all texts of `flag`.
    ///
    /// # Panics
    /// See [`Values`].
    pub fn texts(&self, flag: &str) -> &[String] {
        match &self.entry(flag).value {
            Value::Texts(texts) => texts,
            _ => panic!("--{flag} takes no text"),
        }
    }

    /// Returns all files that were named.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.entries.iter().filter_map(|entry| match &entry.value {
            Value::Path(path) => path.as_deref(),
            _ => None,
        })
    }

    /// Returns the values for a recording that stands for a run with these values if every policy is to be simulated: names, switches and
    /// files are the run's, counts are at most the defaults of recordings.
    ///
    /// # Panics
    /// The values are not those of a run.
    pub fn small_recording(&self, specs: &'static [OptionSpec]) -> Values {
        assert_eq!(self.purpose, Purpose::Run, "the values of a run");
        let mut small = Values::new(specs, Purpose::Record);
        for entry in &mut small.entries {
            let of_run = self.entries.iter().find(|run| run.spec == entry.spec);
            let Some(of_run) = of_run else { continue };
            entry.given = of_run.given;
            entry.value = match (&of_run.value, &entry.value) {
                (Value::Count(Some(run)), Value::Count(Some(most))) => {
                    Value::Count(Some(*run.min(most)))
                }
                (value, _) => value.clone(),
            };
        }
        small
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRIMSON: Name = Name {
        name: "crimson",
        aliases: &["red"],
    };

    const COLOURS: [Name; 2] = [CRIMSON, Name::new("blue")];

    const SPECS: &[OptionSpec] = &[
        OptionSpec::new("input", "FILE", Kind::Path, "A file").positional(),
        OptionSpec::new("size", "N", Kind::Count(1, 4096), "Points")
            .default("1024")
            .default_in_recordings("64"),
        OptionSpec::new("most", "N", Kind::Count(1, 9), "At most").record_only(),
        OptionSpec::new("colour", "NAME", Kind::Named(&COLOURS), "A colour")
            .aliases(&["color"])
            .default("blue"),
        OptionSpec::new("fast", "", Kind::Switch, "Be fast"),
        OptionSpec::new("set", "KEY=VALUE", Kind::Texts, "Replace a value").record_only(),
    ];

    #[test]
    fn defaults_depend_on_the_purpose() {
        let run = Values::new(SPECS, Purpose::Run);
        assert_eq!((run.count("size"), run.name("colour")), (1024, "blue"));
        assert!(!run.has("most") && !run.switch("fast") && run.path("input").is_none());
        let record = Values::new(SPECS, Purpose::Record);
        assert_eq!(
            (record.count("size"), record.count_if_any("most")),
            (64, None)
        );
    }

    #[test]
    fn aliases_become_names_and_errors_list_what_is_right() {
        let mut values = Values::new(SPECS, Purpose::Run);
        values.set("color", "red").expect("an alias");
        assert_eq!(values.name("colour"), "crimson");
        assert!(values.is_given("colour") && !values.is_given("size"));
        let wrong = |flag: &str, text: &str| Values::new(SPECS, Purpose::Run).set(flag, text);
        for (flag, text, words) in [
            ("colour", "green", &["crimson", "blue"][..]),
            ("size", "0", &["--size", "1 to 4096"]),
            ("size", "much", &["--size"]),
            ("most", "3", &["a run", "size, colour, fast"]),
        ] {
            let error = wrong(flag, text).expect_err("it is wrong");
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
            assert!(!error.contains("red,"), "{error}");
        }
    }

    #[test]
    fn a_small_recording_has_the_names_of_the_run_and_no_larger_counts() {
        let run = |size: &str| {
            let values = Values::new(SPECS, Purpose::Run);
            let values = values.with(&[("size", size), ("colour", "red"), ("fast", "true")]);
            values.expect("they are right").small_recording(SPECS)
        };
        assert_eq!((run("4000").count("size"), run("9").count("size")), (64, 9));
        assert_eq!(run("9").name("colour"), "crimson");
        assert!(run("9").switch("fast") && run("9").texts("set").is_empty());
    }
}
