//! A differential equation after a trait object, solved by embedded Runge-Kutta steps of adaptive
//! length (Bogacki and Shampine, orders 3 and 2). Sines are imports.

#[link(wasm_import_module = "env")]
extern "C" {
    #[link_name = "sin"]
    fn imported_sin(x: f64) -> f64;
}

fn sin(x: f64) -> f64 {
    // SAFETY: a function of a number.
    unsafe { imported_sin(x) }
}

trait System {
    /// Time derivative of `state`.
    fn slope(&self, time: f64, state: &[f64]) -> Vec<f64>;
}

/// A damped pendulum that is pushed periodically.
struct Pendulum<'a> {
    parameters: &'a [f64],
}

impl System for Pendulum<'_> {
    fn slope(&self, time: f64, state: &[f64]) -> Vec<f64> {
        let [frequency, damping, push] = *self.parameters else { panic!("a pendulum has three parameters") };
        vec![state[1], push * sin(time) - damping * state[1] - frequency * frequency * sin(state[0])]
    }
}

/// Species that eat each other: growth rates, then the matrix of encounters.
struct Species<'a> {
    growth: &'a [f64],
    encounters: Vec<&'a [f64]>,
}

impl System for Species<'_> {
    fn slope(&self, _: f64, state: &[f64]) -> Vec<f64> {
        let rate = |(growth, row): (&f64, &&[f64])| growth + row.iter().zip(state).map(|(a, x)| a * x).sum::<f64>();
        self.growth.iter().zip(&self.encounters).map(rate).zip(state).map(|(r, x)| r * x).collect()
    }
}

fn combine(state: &[f64], step: f64, slopes: &[(&[f64], f64)]) -> Vec<f64> {
    let sum = |i: usize| slopes.iter().map(|(slope, weight)| weight * slope[i]).sum::<f64>();
    state.iter().enumerate().map(|(i, x)| x + step * sum(i)).collect()
}

fn solve(system: &dyn System, mut state: Vec<f64>, end: f64, tolerance: f64) -> Vec<f64> {
    let (mut time, mut step) = (0.0, end / 4.0);
    let mut first = system.slope(time, &state);
    while time < end {
        if time + step > end {
            step = end - time;
        }
        let second = system.slope(time + step / 2.0, &combine(&state, step, &[(&first, 0.5)]));
        let third = system.slope(time + 0.75 * step, &combine(&state, step, &[(&second, 0.75)]));
        let next = combine(&state, step, &[(&first, 2.0 / 9.0), (&second, 1.0 / 3.0), (&third, 4.0 / 9.0)]);
        let fourth = system.slope(time + step, &next);
        let coarse =
            combine(&state, step, &[(&first, 7.0 / 24.0), (&second, 0.25), (&third, 1.0 / 3.0), (&fourth, 0.125)]);
        let error = next.iter().zip(&coarse).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
        if error > tolerance {
            step /= 2.0;
            continue;
        }
        time += step;
        (state, first) = (next, fourth);
        if error < tolerance / 8.0 {
            step *= 2.0;
        }
    }
    state
}

/// The sum of squares of the state at time `end`. Kind 0: a pendulum; 1: `n` species with `n + n²`
/// parameters.
///
/// # Safety
/// `initial` is of `n` numbers, `parameters` of as many as the system has.
#[no_mangle]
pub unsafe extern "C" fn ode_loss(
    kind: i32,
    n: usize,
    initial: *const f64,
    parameters: *const f64,
    end: f64,
    tolerance: f64,
) -> f64 {
    let state = std::slice::from_raw_parts(initial, n).to_vec();
    let system: Box<dyn System> = match kind {
        0 => Box::new(Pendulum { parameters: std::slice::from_raw_parts(parameters, 3) }),
        1 => {
            let (growth, rest) = std::slice::from_raw_parts(parameters, n + n * n).split_at(n);
            Box::new(Species { growth, encounters: rest.chunks(n).collect() })
        }
        _ => panic!("there are two kinds of systems"),
    };
    solve(&*system, state, end, tolerance).iter().map(|x| x * x).sum()
}
