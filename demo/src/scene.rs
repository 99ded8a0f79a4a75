//! The scene: sky, ridges, terraces, birds and a boat, painted from front to back.

use crate::noise::{fractal, hash, lerp, noise, step, wave};

/// A linear mixture of red, green and blue, each 0 to 1.
#[derive(Clone, Copy, Default)]
pub struct Colour {
    /// Red.
    pub r: f32,
    /// Green.
    pub g: f32,
    /// Blue.
    pub b: f32,
}

const fn rgb(r: f32, g: f32, b: f32) -> Colour {
    Colour { r, g, b }
}

impl Colour {
    /// Returns this colour mixed with `share` of another.
    pub fn mix(self, other: Colour, share: f32) -> Colour {
        rgb(
            lerp(self.r, other.r, share),
            lerp(self.g, other.g, share),
            lerp(self.b, other.b, share),
        )
    }

    fn times(self, factor: f32) -> Colour {
        rgb(self.r * factor, self.g * factor, self.b * factor)
    }
}

const ZENITH: Colour = rgb(0.30, 0.50, 0.80);
const HORIZON: Colour = rgb(0.98, 0.84, 0.66);
const HAZE: Colour = rgb(0.84, 0.80, 0.74);
const CLOUD: Colour = rgb(1.0, 0.96, 0.91);
const SUN_X: f32 = 590.0;
const SUN_Y: f32 = 118.0;
const TERRACES: usize = 12;
const RIDGES: [(f32, f32, f32, f32, Colour); 3] = [
    // Height of the foot, height of the tops above it, grain, parallax, colour; from far to near.
    (168.0, 88.0, 0.0065, 0.06, rgb(0.60, 0.68, 0.80)),
    (186.0, 70.0, 0.0100, 0.13, rgb(0.40, 0.52, 0.60)),
    (204.0, 46.0, 0.0170, 0.24, rgb(0.22, 0.36, 0.32)),
];
/// The terrace of the boat, and where the boat starts.
const BOAT: (usize, f32) = (10, 130.0);

/// One terrace in one picture. Everything that depends only on the column is computed once.
struct Terrace {
    index: usize,
    /// 0 is far, 1 is near.
    near: f32,
    /// World x of column 0, and the world width of a column.
    x: f32,
    dx: f32,
    /// By column, the height of the terrace's far edge, and of its lip, where the bank begins.
    edge: Vec<f32>,
    lip: Vec<f32>,
}

/// The scene at one moment.
pub struct Scene {
    time: f32,
    width: usize,
    zoom: f32,
    pan: f32,
    terraces: Vec<Terrace>,
    ridges: Vec<Vec<f32>>,
}

impl Scene {
    /// Returns the scene at picture number `time`, for pictures `width` pixels wide.
    pub fn at(time: f32, width: usize) -> Scene {
        let zoom = 1.0 + 0.24 * step(10.0, 140.0, time);
        let pan = 3.3 * time + 0.006 * time * time;
        let mut scene = Scene {
            time,
            width,
            zoom,
            pan,
            terraces: Vec::new(),
            ridges: Vec::new(),
        };
        scene.terraces = (0..TERRACES).map(|index| scene.terrace(index)).collect();
        scene.ridges = RIDGES
            .iter()
            .enumerate()
            .map(|(i, &(foot, height, grain, parallax, _))| {
                let top = |x: usize| {
                    let world = (scene.u(x) + parallax * pan) * grain;
                    foot - height * step(0.15, 0.95, fractal(world, 3.5, 5, 40 + 9 * i as u32))
                };
                (0..width).map(top).collect()
            })
            .collect();
        scene
    }

    fn u(&self, column: usize) -> f32 {
        (column as f32 - 400.0) / self.zoom + 400.0
    }

    fn v(&self, row: usize) -> f32 {
        (row as f32 - 250.0) / self.zoom + 250.0
    }

    fn terrace(&self, index: usize) -> Terrace {
        let near = index as f32 / (TERRACES - 1) as f32;
        let parallax = 0.30 + 0.95 * near;
        let foot = 196.0 + 232.0 * near * (0.45 + 0.55 * near);
        let sway = 7.0 + 26.0 * near;
        let depth = 7.0 + 24.0 * near;
        let x = self.u(0) + parallax * self.pan;
        let dx = 1.0 / self.zoom;
        let grain = 0.0085 / (0.7 + 0.8 * near);
        let seed = 100 + 7 * index as u32;
        let mut edge = Vec::with_capacity(self.width);
        let mut lip = Vec::with_capacity(self.width);
        for column in 0..self.width {
            let world = x + dx * column as f32;
            let top = foot + sway * (2.0 * fractal(world * grain, 0.5, 3, seed) - 1.0);
            edge.push(top);
            lip.push(top + depth * (0.45 + 0.9 * fractal(world * grain * 1.7, 7.5, 2, seed + 3)));
        }
        Terrace {
            index,
            near,
            x,
            dx,
            edge,
            lip,
        }
    }

    /// Paints the whole picture row by row.
    pub fn render(&self, pixels: &mut [Colour]) {
        for (row, line) in pixels.chunks_exact_mut(self.width).enumerate() {
            for (column, pixel) in line.iter_mut().enumerate() {
                *pixel = self.pixel(column, self.v(row));
            }
        }
        self.paint_birds(pixels);
    }

    /// Returns the colour of a pixel, from the nearest layer to the farthest, until the result is opaque.
    fn pixel(&self, column: usize, v: f32) -> Colour {
        let mut seen = Colour::default();
        let mut left = 1.0;
        let mut add = |colour: Colour, cover: f32, left: &mut f32| {
            let share = *left * cover;
            seen = rgb(
                seen.r + colour.r * share,
                seen.g + colour.g * share,
                seen.b + colour.b * share,
            );
            *left -= share;
        };
        for terrace in self.terraces.iter().rev() {
            if let Some((colour, cover)) = self.tree(terrace, column, v) {
                add(colour, cover, &mut left);
            }
            if terrace.index == BOAT.0
                && let Some((colour, cover)) = self.boat(terrace, column, v)
            {
                add(colour, cover, &mut left);
            }
            let cover = (v - terrace.edge[column] + 0.5).clamp(0.0, 1.0);
            if cover > 0.0 {
                add(self.ground(terrace, column, v), cover, &mut left);
            }
            if left < 0.004 {
                return seen;
            }
        }
        let x = self.u(column);
        for (i, &(foot, height, _, parallax, colour)) in RIDGES.iter().enumerate().rev() {
            let cover = (v - self.ridges[i][column] + 0.5).clamp(0.0, 1.0);
            if cover > 0.0 {
                let leaves =
                    fractal((x + parallax * self.pan) * 0.11, v * 0.16, 3, 71 + i as u32) - 0.5;
                let mist = step(foot - 0.6 * height, foot + 10.0, v) * 0.65;
                add(
                    colour
                        .times(1.0 + 0.16 * (i as f32 + 1.0) * leaves)
                        .mix(HAZE, mist),
                    cover,
                    &mut left,
                );
            }
            if left < 0.004 {
                return seen;
            }
        }
        add(self.sky(x, v), 1.0, &mut left);
        seen
    }

    fn sky(&self, x: f32, v: f32) -> Colour {
        let base = ZENITH.mix(HORIZON, step(-30.0, 185.0, v));
        let (dx, dy) = (x - SUN_X, v - SUN_Y);
        let distance = (dx * dx + dy * dy).sqrt();
        let glow = 1.0 / (1.0 + distance * distance / 3600.0);
        let sun = step(17.0, 14.0, distance);
        let sky = base
            .mix(rgb(1.0, 0.93, 0.76), 0.7 * glow)
            .mix(rgb(1.0, 0.99, 0.92), sun);
        let drift = x + 0.03 * self.pan + 0.55 * self.time;
        let shape = fractal(drift * 0.0062, v * 0.017 + 0.0015 * self.time, 5, 11);
        let cover = step(0.50, 0.72, shape) * step(190.0, 90.0, v) * 0.85;
        let shade =
            0.82 + 0.18 * step(0.75, 0.5, fractal(drift * 0.0062, (v + 9.0) * 0.017, 4, 11));
        sky.mix(CLOUD.times(shade), cover)
    }

    /// Returns the colour of the ground: water, young rice or grown rice, and below its lip the bank.
    fn ground(&self, t: &Terrace, column: usize, v: f32) -> Colour {
        let world = t.x + t.dx * column as f32;
        let (edge, lip) = (t.edge[column], t.lip[column]);
        let size = 0.35 + 0.65 * t.near;
        let colour = if v < lip {
            let depth = (v - edge) / (lip - edge).max(1.0);
            match t.index % 4 {
                1 => self.rice(world, v - edge, depth, size, 0.85, t.index),
                3 => self.rice(world, v - edge, depth, size, 0.38, t.index),
                _ => self.water(world, self.u(column), v - edge, depth, size),
            }
        } else {
            bank(world, v - lip, size, t.index)
        };
        let rim = step(2.2 * size + 0.6, 0.4, (v - lip).abs());
        let colour = colour.mix(rgb(0.52, 0.58, 0.20), 0.75 * rim);
        colour.mix(HAZE, 0.58 * (1.0 - t.near) * (1.0 - t.near))
    }

    /// Returns the colour of water: a mirror of the sky with moving ripples that glitter below the sun.
    fn water(&self, world: f32, u: f32, below: f32, depth: f32, size: f32) -> Colour {
        let calm = HORIZON.mix(rgb(0.45, 0.62, 0.82), step(0.0, 1.0, depth));
        let cloud = fractal(
            world * 0.012 / size,
            below * 0.05 / size - 0.01 * self.time,
            3,
            23,
        );
        let ripple = fractal(
            (world + 1.3 * self.time) * 0.045 / size,
            below * 0.42 / size + 0.13 * self.time,
            3,
            31,
        );
        let tone = calm
            .mix(CLOUD, 0.5 * step(0.5, 0.7, cloud))
            .times(0.62 + 0.64 * ripple);
        let away = (u - SUN_X) / 120.0;
        let glitter = step(0.60, 0.78, ripple) / (1.0 + away * away);
        // Along the far edge the water mirrors the bank behind it.
        let shadow = step(0.34, 0.06, depth + 0.25 * (ripple - 0.5)) * 0.72;
        tone.mix(rgb(1.0, 0.97, 0.85), 0.8 * glitter)
            .mix(rgb(0.25, 0.31, 0.14), shadow)
    }

    /// Returns the colour of rows of plants in water; `dense` is the share of the water that they cover.
    fn rice(
        &self,
        world: f32,
        below: f32,
        depth: f32,
        size: f32,
        dense: f32,
        index: usize,
    ) -> Colour {
        let wind = wave(0.021 * self.time + world * 0.0031);
        let row = 0.5 + 0.5 * wave((world + 1.5 * wind + 0.55 * below) / (9.0 * size));
        let tuft = noise(world * 0.30 / size, below * 0.55 / size, 300 + index as u32);
        let plant = step(0.30, 0.62, 0.55 * row + 0.55 * tuft) * dense + 0.25 * dense;
        let green = rgb(0.22, 0.40, 0.09)
            .mix(rgb(0.68, 0.78, 0.28), tuft)
            .times(0.92 + 0.13 * wind);
        self.water(world, -200.0, below, depth, size)
            .mix(green, plant.min(1.0))
    }

    /// Returns the colour of a round tree, some of which stand on a terrace's edge.
    fn tree(&self, t: &Terrace, column: usize, v: f32) -> Option<(Colour, f32)> {
        let spacing = 330.0;
        let world = t.x + t.dx * column as f32;
        let world = world + 97.0 * t.index as f32;
        let cell = (world / spacing).floor() as i32;
        if t.index < 2 || t.index > 10 || hash(cell, t.index as i32, 55) < 0.45 {
            return None;
        }
        let size = 9.0 + 26.0 * t.near;
        let centre = (cell as f32 + 0.3 + 0.4 * hash(cell, t.index as i32, 56)) * spacing;
        let at = ((centre - 97.0 * t.index as f32 - t.x) / t.dx).clamp(0.0, (self.width - 1) as f32)
            as usize;
        let (dx, dy) = (
            (world - centre) / size,
            (v - t.edge[at] + 1.05 * size) / size,
        );
        if !(-1.5..1.5).contains(&dx) || !(-1.5..1.3).contains(&dy) {
            return None;
        }
        let rough = fractal(world * 3.2 / size, v * 3.2 / size, 3, 61 + t.index as u32);
        let radius = (dx * dx + dy * dy * 1.25).sqrt() + 0.55 * (rough - 0.5);
        let crown = step(0.93, 0.85, radius);
        let trunk = step(0.11, 0.07, dx.abs()) * step(0.2, 0.4, dy);
        let leaves = rgb(0.10, 0.20, 0.09).mix(
            rgb(0.38, 0.46, 0.16),
            rough * step(0.9, -0.9, dy - 0.4 * dx),
        );
        let colour = rgb(0.22, 0.15, 0.10).mix(leaves, crown);
        let cover = crown.max(trunk);
        (cover > 0.0).then(|| {
            (
                colour.mix(HAZE, 0.5 * (1.0 - t.near) * (1.0 - t.near)),
                cover,
            )
        })
    }

    /// Returns the colour of a flat boat with a man in a straw hat, who pushes it along, and their reflection.
    fn boat(&self, t: &Terrace, column: usize, v: f32) -> Option<(Colour, f32)> {
        let x = self.u(column) - (BOAT.1 + 1.9 * self.time);
        let at = ((BOAT.1 + 1.9 * self.time - 400.0) * self.zoom + 400.0)
            .clamp(0.0, (self.width - 1) as f32) as usize;
        let line = lerp(t.edge[at], t.lip[at], 0.55) + 0.8 * wave(0.017 * self.time);
        let y = v - line;
        if x.abs() > 60.0 || !(-52.0..26.0).contains(&y) {
            return None;
        }
        let mirrored = y > 0.0;
        let wobble = if mirrored {
            1.6 * wave(0.05 * self.time + y * 0.14)
        } else {
            0.0
        };
        let (x, y) = (x + wobble, if mirrored { -1.7 * y } else { y });
        let hull = step(0.8, -0.8, (x / 46.0) * (x / 46.0) * 9.0 - 9.0 - y) * step(0.5, -0.5, y);
        let hull = hull * step(-9.5, -8.5, y - 0.0035 * x * x);
        let body = step(6.5, 5.5, (x - 14.0).abs() + 0.10 * (y + 30.0))
            * step(-31.0, -30.0, y)
            * step(-6.0, -7.0, y);
        let hat =
            step(1.0, 0.9, (x - 14.0).abs() / 11.0 - (y + 40.0) / 8.0) * step(-31.0, -32.0, y);
        let hat = hat * step(-41.5, -40.5, y);
        let push = 10.0 * wave(0.012 * self.time);
        let pole =
            step(1.3, 0.6, (x + 4.0 - (y + 14.0) * 0.55 - push).abs()) * step(-48.0, -47.0, y);
        let mut colour = rgb(0.30, 0.20, 0.13).times(0.8 + 0.4 * noise(x * 0.12, y * 0.8, 91));
        colour = colour.mix(rgb(0.42, 0.30, 0.16), pole);
        colour = colour
            .mix(rgb(0.18, 0.26, 0.45), body)
            .mix(rgb(0.90, 0.78, 0.46), hat);
        let cover = hull.max(body).max(hat).max(pole);
        let cover = if mirrored { 0.5 * cover } else { cover };
        (cover > 0.0).then_some((colour, cover))
    }

    /// Paints nine birds in a loose row with beating wings across the sky.
    fn paint_birds(&self, pixels: &mut [Colour]) {
        for bird in 0..9 {
            let rank = (bird as f32 - 4.0).abs();
            let size = 7.0 + 3.0 * hash(bird, 1, 77);
            let x = 900.0 - 5.2 * self.time + 24.0 * rank + 30.0 * hash(bird, 2, 77);
            let y = 74.0
                + 13.0 * (bird as f32 - 4.0)
                + 4.0 * wave(0.013 * self.time + hash(bird, 3, 77));
            let lift = wave(0.055 * self.time + hash(bird, 4, 77));
            self.paint_bird(pixels, x, y, size, lift);
        }
    }

    fn paint_bird(&self, pixels: &mut [Colour], x: f32, y: f32, size: f32, lift: f32) {
        let reach = 1.2 * size + 3.0;
        let rows = (y - reach).max(0.0) as usize
            ..(y + reach).clamp(0.0, (pixels.len() / self.width) as f32) as usize;
        for row in rows {
            for column in
                (x - reach).max(0.0) as usize..(x + reach).clamp(0.0, self.width as f32) as usize
            {
                let (dx, dy) = (column as f32 - x, row as f32 - y);
                let along = dx.abs() / size;
                // Wings bend at half of their length.
                let wing = -lift * size * 0.75 * (along - 0.5 * along * along) * 1.4
                    + 0.25 * size * along * along;
                let thick = 1.6 - 0.9 * along;
                let wings =
                    step(thick + 0.7, thick - 0.3, (dy - wing).abs()) * step(1.05, 0.95, along);
                let body = step(
                    1.1,
                    0.8,
                    (dx * dx / (0.3 * size * size) + dy * dy / 3.2).sqrt(),
                );
                let pixel = &mut pixels[row * self.width + column];
                *pixel = pixel.mix(rgb(0.13, 0.14, 0.17), 0.92 * wings.max(body));
            }
        }
    }
}

/// Returns the colour of grass and earth below a lip, darker towards the foot.
fn bank(world: f32, below: f32, size: f32, index: usize) -> Colour {
    let grass = fractal(
        world * 0.16 / size,
        below * 0.10 / size,
        3,
        200 + index as u32,
    );
    let blades = noise(world * 0.55 / size, below * 0.16 / size, 230 + index as u32);
    let tone = rgb(0.15, 0.20, 0.06).mix(rgb(0.58, 0.60, 0.24), 0.6 * grass + 0.4 * blades);
    let earth = rgb(0.33, 0.23, 0.13);
    tone.mix(earth, 0.6 * step(0.55, 0.8, grass)).times(lerp(
        1.05,
        0.62,
        step(0.0, 26.0 * size, below),
    ))
}
