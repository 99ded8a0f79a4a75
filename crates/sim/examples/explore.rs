#[path = "../../papers/src/manycore/programs.rs"]
mod programs;
use tanada_policy::{Decision, RegionId, Shape, governors::regions as gov};
use tanada_sim::tanada_trace::threads::ThreadTrace;
use tanada_sim::{machines, regions::*};
fn main() {
    let sets: Vec<String> = std::env::args().skip(1).collect();
    let machine = machines::find("phi").unwrap().overridden(&sets).unwrap();
    let mut sum = (0.0, 0.0);
    for (name, names) in programs::PROGRAMS {
        let trace =
            ThreadTrace::open(std::path::Path::new(&format!("/tmp/omprec/{name}.tnb"))).unwrap();
        let regions = measure(&trace, &machine).unwrap();
        let program = programs::program(name, regions);
        let mut m = Machinery::new(&machine, &program).unwrap();
        let all = Shape {
            cores: 60,
            threads_per_core: 4,
        };
        let base = m.fixed(all);
        let mut best = (f64::INFINITY, all);
        for c in 1..=60 {
            for k in 1..=4 {
                let s = Shape {
                    cores: c,
                    threads_per_core: k,
                };
                let t = m.fixed(s);
                if t < best.0 {
                    best = (t, s);
                }
            }
        }
        println!(
            "{name}: all {:.2} s; best static {} {:.1}%",
            base / 1.053e9,
            best.1,
            100.0 * (base / best.0 - 1.0)
        );
        let of = |c, k, m: &mut Machinery| {
            base / m.fixed(Shape {
                cores: c,
                threads_per_core: k,
            })
        };
        for k in 1..=4 {
            println!(
                "   k={k}: {}",
                [10, 20, 30, 44, 54, 60]
                    .map(|c| format!("{c}:{:.3}", of(c, k, &mut m)))
                    .join(" ")
            );
        }
        for (r, rn) in names.iter().enumerate() {
            let w = &program.regions[r].work;
            let inv = program
                .step
                .iter()
                .find(|i| i.region == r as u32 && (name != "mg" || i.scale == 1.0))
                .unwrap();
            let ta = m.time(inv, Decision::full(all));
            let mut b = (f64::INFINITY, all);
            for c in 1..=60 {
                for k in 1..=4 {
                    let s = Shape {
                        cores: c,
                        threads_per_core: k,
                    };
                    let t = m.time(inv, Decision::full(s));
                    if t < b.0 {
                        b = (t, s);
                    }
                }
            }
            println!(
                "   {rn}: I {:.0} near {:.4} str {:.4} fet {:.4} wr {:.4} per kI; k4: near {:.2} str {:.2} fet {:.2} wr {:.2}; {:.0} us all; best {} {:.1}%",
                w[0].instructions,
                1e3 * w[0].second_level / w[0].instructions,
                1e3 * w[0].streamed / w[0].instructions,
                1e3 * w[0].fetched / w[0].instructions,
                1e3 * w[0].written / w[0].instructions,
                1e3 * w[3].second_level / w[3].instructions,
                1e3 * w[3].streamed / w[3].instructions,
                1e3 * w[3].fetched / w[3].instructions,
                1e3 * w[3].written / w[3].instructions,
                ta / 1053.0,
                b.1,
                100.0 * (ta / b.0 - 1.0)
            );
        }
        let site = m.site();
        let mut governor = (gov::find("predict").unwrap().make)(&site, &gov::Settings::default());
        let mut a = (gov::find("all").unwrap().make)(&site, &gov::Settings::default());
        let t0 = m.run(a.as_mut(), |_| ()).cycles;
        let r = m.run(governor.as_mut(), |_| ());
        println!(
            "   predict {:.2}% switching {:.2}%",
            100.0 * (t0 / r.cycles - 1.0),
            100.0 * r.switching / r.cycles
        );
        sum.0 += 100.0 * (t0 / r.cycles - 1.0) / 9.0;
        for (i, x) in r.regions.iter().enumerate() {
            println!(
                "      {}: {} {:.0} us/inv; {}",
                names[i],
                x.2.shape,
                x.1 / x.0.max(1) as f64 / 1053.0,
                governor.why(RegionId(i as u32))
            );
        }
    }
    println!("mean {:.2}", sum.0);
}
