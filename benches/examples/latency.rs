use benches::prepared::{derive, options, request};
use std::time::Instant;
fn main() {
    let name = std::env::args().nth(1).unwrap();
    let n: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    let how = benches::How { mode: brolga::Mode::Gradient, ..Default::default() };
    let make = benches::problems::ALL.iter().find(|p| p.0 == name).unwrap().1;
    let p = &make(benches::Size::Full);
    let (mut a, mut b, mut c) = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..n {
        let t = Instant::now();
        let (program, request) = request(p).unwrap();
        let t1 = Instant::now();
        let d = derive(p, &program, &request, how).unwrap();
        let t2 = Instant::now();
        let rule = brolga::DerivedRule::from_derivation(d, &request, &options(how)).unwrap();
        let t3 = Instant::now();
        a = a.min((t1 - t).as_secs_f64());
        b = b.min((t2 - t1).as_secs_f64());
        c = c.min((t3 - t2).as_secs_f64());
        drop(rule);
    }
    println!("{name}: parse {:.0} us, derive {:.0} us, compile {:.0} us", a * 1e6, b * 1e6, c * 1e6);
}
