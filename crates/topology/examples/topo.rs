//! Draws a machine: this one, or the one that the arguments describe.
//!
//! ```sh
//! cargo run -p tanada-topology --example topo
//! cargo run -p tanada-topology --example topo -- package:2 l3:1 core:4 pu:2 l3.size=32M
//! ```

use tanada_topology::{Error, Topology};

fn main() -> Result<(), Error> {
    let text = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let machine = if text.is_empty() {
        Topology::detect()?
    } else {
        Topology::parse(&text)?
    };
    print!("{}", machine.picture(100));
    println!("as text: {machine}");
    println!("workers by default: {}", machine.default_workers());
    Ok(())
}
