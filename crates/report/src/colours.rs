//! Colours of groups, stages and origins, in one place so that charts on a page and in a picture agree.
//!
//! A number has the same colour on every chart. S groups and stages are categories without an order and use the palette of Okabe and Ito,
//! which stays distinguishable under the common colour blindnesses. T groups follow each other in time and use a scale of even lightness
//! steps (the anchors of viridis), with every second group lightened so that neighbours differ. Group 0, the exception group, is grey. All
//! colours are visible on white and on near-black.

/// A colour: 0xrrggbb.
pub(crate) type Rgb = u32;

/// The exception group, and everything without a class.
pub(crate) const GREY: Rgb = 0x8c8c8c;

/// The palette of Okabe and Ito without black, and the wine of Tol's palette, so that eight stages have eight colours.
const KINDS: [Rgb; 8] = [
    0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7, 0x56b4e9, 0xd55e00, 0xf0e442, 0x882255,
];

/// The anchors of viridis without its darkest tenth, which would be invisible on a dark page.
const SCALE: [Rgb; 7] = [
    0x482878, 0x3e4989, 0x31688e, 0x26828e, 0x1f9e89, 0x6dcd59, 0xfde725,
];

fn mix(a: Rgb, b: Rgb, share_of_b: f64) -> Rgb {
    let (a, b) = (a.to_be_bytes(), b.to_be_bytes());
    Rgb::from_be_bytes(std::array::from_fn(|i| {
        let value = f64::from(a[i]) * (1.0 - share_of_b) + f64::from(b[i]) * share_of_b;
        // The value is between two u8s.
        value.round() as u8
    }))
}

/// Returns the colour of the category with this index: the palette, then the palette lightened, then darkened, then from the start.
pub(crate) fn kind(index: usize) -> Rgb {
    let base = KINDS[index % KINDS.len()];
    match (index / KINDS.len()) % 3 {
        0 => base,
        1 => mix(base, 0xffffff, 0.45),
        _ => mix(base, 0, 0.35),
    }
}

/// Returns the colour of an S group.
pub(crate) fn s_group(s: u32) -> Rgb {
    if s == 0 { GREY } else { kind(s as usize - 1) }
}

/// Returns the colour of a T group; `t_max` is the greatest T group of all charts that must agree.
pub(crate) fn t_group(t: u32, t_max: u32) -> Rgb {
    if t == 0 {
        return GREY;
    }
    let position = f64::from(t - 1) / f64::from(t_max.max(2) - 1) * (SCALE.len() - 1) as f64;
    let below = (position as usize).min(SCALE.len() - 2);
    let colour = mix(
        SCALE[below],
        SCALE[below + 1],
        (position - below as f64).min(1.0),
    );
    if t.is_multiple_of(2) {
        mix(colour, 0xffffff, 0.3)
    } else {
        colour
    }
}

/// Returns the colour of an origin by its number in JSON; 4 and above are stolen.
pub(crate) fn origin(code: u32) -> Rgb {
    match code {
        0 => KINDS[2],
        1 => KINDS[0],
        2 => KINDS[1],
        3 => KINDS[4],
        _ => KINDS[5],
    }
}

/// Returns a colour as `#rrggbb`.
pub(crate) fn hex(colour: Rgb) -> String {
    format!("#{colour:06x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(a: Rgb, b: Rgb) -> u32 {
        let (a, b) = (a.to_be_bytes(), b.to_be_bytes());
        (0..4).map(|i| u32::from(a[i].abs_diff(b[i])).pow(2)).sum()
    }

    #[test]
    fn first_24_kinds_and_grey_differ() {
        let mut all: Vec<Rgb> = (0..24).map(kind).collect();
        all.push(GREY);
        for (i, &a) in all.iter().enumerate() {
            for &b in &all[..i] {
                assert!(distance(a, b) > 300, "{} and {}", hex(a), hex(b));
            }
        }
    }

    #[test]
    fn neighbouring_t_groups_differ_up_to_a_hundred() {
        for t_max in [1, 2, 15, 30, 100] {
            for t in 1..t_max {
                assert!(
                    distance(t_group(t, t_max), t_group(t + 1, t_max)) > 300,
                    "T{t} of {t_max}"
                );
            }
        }
        assert_eq!(t_group(0, 9), GREY);
    }
}
