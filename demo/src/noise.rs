//! Value noise and other functions of the scene, all from operations that every machine rounds equally.

/// Returns a number of 0 to 1 that depends only on a lattice point and a seed.
pub fn hash(x: i32, y: i32, seed: u32) -> f32 {
    let mut h = (x as u32).wrapping_mul(0x9e37_79b1)
        ^ (y as u32).wrapping_mul(0x85eb_ca77)
        ^ seed.wrapping_mul(0xc2b2_ae3d);
    h = (h ^ (h >> 15)).wrapping_mul(0x2c1b_3c6d);
    h = (h ^ (h >> 12)).wrapping_mul(0x297a_2d39);
    h ^= h >> 15;
    (h >> 8) as f32 / 16_777_216.0
}

/// Returns 0 below `low`, 1 above `high`, and a smooth step between.
pub fn step(low: f32, high: f32, x: f32) -> f32 {
    let t = ((x - low) / (high - low)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// Returns the value between `a` (`t` = 0) and `b` (`t` = 1).
pub fn lerp(a: f32, b: f32, t: f32) -> f32 {
    a + (b - a) * t
}

/// Returns smooth noise of 0 to 1 with a grain of one unit.
pub fn noise(x: f32, y: f32, seed: u32) -> f32 {
    let (fx, fy) = (x.floor(), y.floor());
    let (ix, iy) = (fx as i32, fy as i32);
    let (tx, ty) = (step(0.0, 1.0, x - fx), step(0.0, 1.0, y - fy));
    let top = lerp(hash(ix, iy, seed), hash(ix + 1, iy, seed), tx);
    let bottom = lerp(hash(ix, iy + 1, seed), hash(ix + 1, iy + 1, seed), tx);
    lerp(top, bottom, ty)
}

/// Returns noise of 0 to 1 with several grains, each half as coarse and half as strong as the one before.
pub fn fractal(x: f32, y: f32, octaves: u32, seed: u32) -> f32 {
    let (mut sum, mut total, mut strength, mut scale) = (0.0, 0.0, 1.0, 1.0);
    for octave in 0..octaves {
        sum += strength * noise(x * scale, y * scale, seed + octave);
        total += strength;
        strength *= 0.5;
        scale *= 2.03;
    }
    sum / total
}

/// Returns a wave of period 1 between -1 and 1: Bhaskara's approximation of the sine, within 0.2%.
pub fn wave(x: f32) -> f32 {
    let t = x - x.floor();
    let (half, sign) = if t < 0.5 { (t, 1.0) } else { (t - 0.5, -1.0) };
    let p = half * (0.5 - half);
    sign * 16.0 * p / (1.25 - 4.0 * p)
}
