//! What the variable `TANADA_OMP` says.

use std::path::PathBuf;
use tanada_policy::Waiting;

/// The settings of this layer. Without the variable it is inactive.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Settings {
    /// The governor's name.
    pub(super) governor: String,
    /// The team of the governor `fixed`.
    pub(super) threads: Option<u32>,
    /// How members wait under the governor `fixed`.
    pub(super) waiting: Waiting,
    /// Only observe.
    pub(super) dry_run: bool,
    /// Hardware threads that neighbours keep busy, if they are not to be looked for.
    pub(super) neighbours: Option<u32>,
    /// The file of the board.
    pub(super) board: Option<PathBuf>,
    /// The profile, which is read at the start if it is there, and written at the end.
    pub(super) profile: Option<PathBuf>,
    /// Whether the variable that lets libgomp spin is set for this program alone.
    pub(super) spins: bool,
    /// How many of the libraries in `LD_PRELOAD` programs that this one starts shall not load: the first ones.
    pub(super) own: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            governor: "predict".to_owned(),
            threads: None,
            waiting: Waiting::AsIs,
            dry_run: false,
            neighbours: None,
            board: None,
            profile: None,
            own: 0,
            spins: false,
        }
    }
}

impl Settings {
    /// Returns whether members of teams may spin for a short time even if the user wanted them to sleep at once: the governor then sees to
    /// it that they do not while others want the processor.
    pub(super) fn lets_spin(&self) -> bool {
        self.governor == "predict" && !self.dry_run
    }

    /// Reads `governor=NAME,threads=N,waiting=WAITING,dry-run,neighbours=N,board=FILE,own=N,spins,profile=FILE`, of which each may be
    /// missing. The profile stands last, because the name of a file may have commas.
    ///
    /// # Errors
    /// Returns what is wrong.
    pub(super) fn read(text: &str) -> Result<Settings, String> {
        let mut settings = Settings::default();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let word = match rest.starts_with("profile=") {
                true => std::mem::take(&mut rest),
                false => {
                    let (word, behind) = rest.split_once(',').unwrap_or((rest, ""));
                    rest = behind;
                    word
                }
            };
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let number = || {
                value
                    .parse::<u32>()
                    .map_err(|_| format!("{name}: \"{value}\" is no number"))
            };
            match name {
                "governor" => settings.governor = value.to_owned(),
                "threads" => settings.threads = Some(number()?.max(1)),
                "waiting" => {
                    settings.waiting = waiting(value).ok_or_else(|| {
                        format!(
                            "waiting: \"{value}\" is none of as-is, spin, sleep, sleep:NANOSECONDS"
                        )
                    })?;
                }
                "dry-run" => settings.dry_run = true,
                "neighbours" => settings.neighbours = Some(number()?),
                "board" => settings.board = Some(value.into()),
                "spins" => settings.spins = true,
                "own" => settings.own = number()? as usize,
                "profile" => settings.profile = Some(value.into()),
                "" => {}
                _ => {
                    return Err(format!(
                        "\"{name}\" is none of governor, threads, waiting, dry-run, neighbours, board, own, spins, profile"
                    ));
                }
            }
        }
        Ok(settings)
    }
}

fn waiting(text: &str) -> Option<Waiting> {
    Some(match text {
        "as-is" => Waiting::AsIs,
        "spin" => Waiting::Spin,
        "sleep" => Waiting::Sleep(0),
        other => Waiting::Sleep(other.strip_prefix("sleep:")?.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_faults_named() {
        assert_eq!(Settings::read(""), Ok(Settings::default()));
        let text = "governor=fixed,threads=2,waiting=sleep:500,dry-run,neighbours=1,board=/proc/1/fd/3,own=1,spins,profile=/a,b=c";
        let expected = Settings {
            governor: "fixed".into(),
            threads: Some(2),
            waiting: Waiting::Sleep(500),
            dry_run: true,
            neighbours: Some(1),
            board: Some("/proc/1/fd/3".into()),
            profile: Some("/a,b=c".into()),
            own: 1,
            spins: true,
        };
        assert_eq!(Settings::read(text), Ok(expected));
        for (text, part) in [
            ("governer=all", "\"governer\" is none of"),
            ("threads=two", "threads: \"two\""),
            ("waiting=sleep:", "waiting: \"sleep:\""),
        ] {
            let fault = Settings::read(text).unwrap_err();
            assert!(fault.contains(part), "{fault}");
        }
    }
}
