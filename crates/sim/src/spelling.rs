//! The name that a misspelt one is meant for.

use std::fmt::Display;

/// Returns the one of `names` that `wrong` is but for one mistake, or two in a name of at least eight letters. More would take `line` for
/// `size`.
pub fn meant<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    let mistakes = names.into_iter().map(|right| {
        let mistakes = strsim::osa_distance(&wrong, right);
        (mistakes, right)
    });
    let similar = mistakes.filter(|(mistakes, right)| *mistakes <= (right.len() / 4).clamp(1, 2));
    let most = similar.min_by_key(|(mistakes, _)| *mistakes);
    most.map(|(_, right)| right)
}

/// Returns `message`, which is about the name `wrong`, with the question whether the one of `names` is [`meant`].
pub fn asked<'a>(
    message: impl Display,
    wrong: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> String {
    match meant(wrong, names) {
        Some(name) => format!("{message}; did you mean `{name}`?"),
        None => message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_with_the_fewest_mistakes_is_meant_if_they_are_few() {
        let names = ["toshiba", "toshiba-board", "ts-local", "size"];
        assert_eq!(meant("Toshba", names), Some("toshiba"));
        assert_eq!(meant("toshiba-baord", names), Some("toshiba-board"));
        assert_eq!(meant("tslcal", names), Some("ts-local"));
        assert_eq!(meant("line", names), None);
        assert_eq!(meant("", names), None);
        assert_eq!(asked("no", "sise", names), "no; did you mean `size`?");
        assert_eq!(asked("no", "line", names), "no");
    }
}
