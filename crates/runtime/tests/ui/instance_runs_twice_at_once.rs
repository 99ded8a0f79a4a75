//! An instance has room for one run at a time.
use tanada_runtime::{Pool, TemplateBuilder};

fn main() {
    let pool = Pool::builder().workers(1).build().unwrap();
    let template = TemplateBuilder::<()>::new().build().unwrap();
    let mut instance = template.instance();
    let (one, two) = (&mut instance, &mut instance);
    one.run(&pool, &()).unwrap();
    two.run(&pool, &()).unwrap();
}
