//! What the command asks of the plugin, as words `NAME=VALUE`.

use std::path::PathBuf;

/// The words, read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// The spool.
    pub(crate) spool: PathBuf,
    /// What the plugin has to say, a line each: see `Status` of the command.
    pub(crate) status: PathBuf,
    /// Where the recording begins.
    pub(crate) from: From,
    /// The kind of the mark that ends it.
    pub(crate) to: Option<u32>,
    /// Instructions of the first thread that are recorded, then the program is ended.
    pub(crate) take: Option<u64>,
    /// Where marks of tasks go, if tasks are recorded: each instruction is then a block of its own.
    pub(crate) tasks: Option<PathBuf>,
    /// Only count, by counters in the emulator's own code.
    pub(crate) count: bool,
}

/// Where a recording begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum From {
    /// At the program's first instruction.
    #[default]
    Start,
    /// At the first mark of this kind.
    Mark(u32),
    /// When the first thread has executed so many instructions.
    Skip(u64),
}

impl Settings {
    /// Reads the words of the command line.
    ///
    /// # Errors
    /// Returns the word that is wrong.
    pub(crate) fn read(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut settings = Self::default();
        for word in words {
            let wrong = || format!("the plugin's argument `{word}` is wrong");
            let (name, value) = word.split_once('=').ok_or_else(wrong)?;
            let number = || value.parse::<u64>().map_err(|_| wrong());
            let kind = || value.parse::<u32>().map_err(|_| wrong());
            match name {
                "spool" => settings.spool = value.into(),
                "status" => settings.status = value.into(),
                "from" => settings.from = From::Mark(kind()?),
                "to" => settings.to = Some(kind()?),
                "skip" => settings.from = From::Skip(number()?),
                "take" => settings.take = Some(number()?),
                "tasks" => settings.tasks = Some(value.into()),
                "count" => settings.count = value == "on",
                _ => return Err(wrong()),
            }
        }
        Ok(settings)
    }
}
