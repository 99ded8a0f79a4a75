//! Renders the demo stream as raw I420 on standard output: a morning flight past terraced rice fields.
//!
//! The scene is designed for a video decoder: layers that pan at different speeds and a slow zoom (motion vectors of every length), water,
//! leaves and clouds (changing texture), a calm sky (skipped macroblocks), birds and a boat that uncover their background (intra
//! macroblocks in predicted pictures).
//!
//! Only additions, multiplications, divisions and square roots are used. Every machine rounds them equally, so the pictures are the same
//! bytes on every machine.

mod noise;
mod scene;

use std::io::{BufWriter, Write};

use scene::{Colour, Scene};

/// Picture width in luma samples.
const WIDTH: usize = 800;
/// Picture height in luma samples.
const HEIGHT: usize = 480;
/// Number of pictures.
const PICTURES: usize = 128;

fn main() -> std::io::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut pixels = vec![Colour::default(); WIDTH * HEIGHT];
    for picture in 0..PICTURES {
        Scene::at(picture as f32, WIDTH).render(&mut pixels);
        write_i420(&mut out, &pixels)?;
    }
    out.flush()
}

/// Returns a byte of limited-range video for a value of 0 to 1: `base` for 0, `base + scale` for 1.
fn level(base: f32, scale: f32, value: f32) -> u8 {
    (base + scale * value + 0.5).clamp(1.0, 254.0) as u8
}

fn luma(c: Colour) -> f32 {
    0.299 * c.r + 0.587 * c.g + 0.114 * c.b
}

/// Writes one picture in BT.601 colours, limited range. Chroma is the mean of four pixels.
fn write_i420(out: &mut impl Write, pixels: &[Colour]) -> std::io::Result<()> {
    let y: Vec<u8> = pixels
        .iter()
        .map(|&c| level(16.0, 219.0, luma(c)))
        .collect();
    let mut cb = Vec::with_capacity(y.len() / 4);
    let mut cr = Vec::with_capacity(y.len() / 4);
    for row in (0..HEIGHT).step_by(2) {
        for column in (0..WIDTH).step_by(2) {
            let at = |dx: usize, dy: usize| pixels[(row + dy) * WIDTH + column + dx];
            let mean = at(0, 0)
                .mix(at(1, 0), 0.5)
                .mix(at(0, 1).mix(at(1, 1), 0.5), 0.5);
            cb.push(level(128.0, 224.0, (mean.b - luma(mean)) / 1.772));
            cr.push(level(128.0, 224.0, (mean.r - luma(mean)) / 1.402));
        }
    }
    out.write_all(&y)?;
    out.write_all(&cb)?;
    out.write_all(&cr)
}
