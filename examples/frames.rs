//! A template: a graph that is built once and run for frame after frame, without allocating anything after the first.
//!
//! Each frame is a picture of eight rows; a row is blurred once the row above it is. What a run works on is its argument.
//!
//! Run it with `cargo run -p tanada-examples --bin frames`.
#![forbid(unsafe_code)]

use std::sync::Mutex;
use tanada_runtime::{Pool, SGroup, TGroup, Template, TemplateBuilder};

const ROWS: usize = 8;
type Frame = [Mutex<[u32; 16]>; ROWS];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let template = blur()?;
    let pool = Pool::builder()
        .workers(2)
        .policy("locality-steal")
        .build()?;
    let mut instance = template.instance();
    for number in 0..5 {
        let frame: Frame = std::array::from_fn(|row| Mutex::new([number * 100 + row as u32; 16]));
        instance.run(&pool, &frame)?;
        let last = frame[ROWS - 1].lock().expect("no task panics")[0];
        println!("frame {number}: the last row is {last} now");
    }
    Ok(())
}

fn blur() -> Result<Template<'static, Frame>, Box<dyn std::error::Error>> {
    let mut builder = TemplateBuilder::<Frame>::new();
    let mut above = None;
    for row in 0..ROWS {
        let task = builder.task("blur", row as u64, move |frame, _| {
            let upper = *frame[row.saturating_sub(1)].lock().expect("no task panics");
            let mut here = frame[row].lock().expect("no task panics");
            for (pixel, upper) in here.iter_mut().zip(upper) {
                *pixel = u32::midpoint(*pixel, upper);
            }
        });
        builder.groups(task, TGroup(1), SGroup(1 + row as u32 / 4)); // half of the rows on each worker
        if let Some(above) = above.replace(task) {
            builder.edge(above, task);
        }
    }
    Ok(builder.build()?)
}
