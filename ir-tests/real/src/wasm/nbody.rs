//! Energy of, and leapfrog steps for, bodies under gravity: what rustc makes of slices, iterators,
//! structs and bounds checks.
#![no_std]
#![feature(core_intrinsics)]

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    core::arch::wasm32::unreachable()
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Vec3 {
    x: f64,
    y: f64,
    z: f64,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Body {
    position: Vec3,
    velocity: Vec3,
    mass: f64,
}

impl core::ops::Sub for Vec3 {
    type Output = Vec3;
    fn sub(self, other: Vec3) -> Vec3 {
        Vec3 { x: self.x - other.x, y: self.y - other.y, z: self.z - other.z }
    }
}

impl Vec3 {
    fn dot(self, other: Vec3) -> f64 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    fn add_scaled(&mut self, other: Vec3, factor: f64) {
        self.x += factor * other.x;
        self.y += factor * other.y;
        self.z += factor * other.z;
    }
}

// `f64::sqrt` is not in `core`; the instruction is what it becomes anyway.
fn sqrt(x: f64) -> f64 {
    unsafe { core::intrinsics::sqrtf64(x) }
}

/// Kinetic energy minus the sum of m_i m_j / distance.
#[no_mangle]
pub unsafe extern "C" fn energy(bodies: *const Body, count: usize) -> f64 {
    let bodies = core::slice::from_raw_parts(bodies, count);
    bodies
        .iter()
        .enumerate()
        .map(|(i, body)| {
            let kinetic = body.mass * body.velocity.dot(body.velocity) / 2.0;
            let potential: f64 = bodies[i + 1..]
                .iter()
                .map(|other| {
                    let distance = body.position - other.position;
                    body.mass * other.mass / sqrt(distance.dot(distance))
                })
                .sum();
            kinetic - potential
        })
        .sum()
}

/// One symplectic Euler step in place: velocities first, then positions.
#[no_mangle]
pub unsafe extern "C" fn advance(bodies: *mut Body, count: usize, dt: f64) {
    let bodies = core::slice::from_raw_parts_mut(bodies, count);
    for i in 0..bodies.len() {
        let (head, tail) = bodies.split_at_mut(i + 1);
        let body = &mut head[i];
        for other in tail {
            let distance = body.position - other.position;
            let squared = distance.dot(distance);
            let magnitude = dt / (squared * sqrt(squared));
            body.velocity.add_scaled(distance, -other.mass * magnitude);
            other.velocity.add_scaled(distance, body.mass * magnitude);
        }
    }
    for body in bodies {
        let velocity = body.velocity;
        body.position.add_scaled(velocity, dt);
    }
}

/// Exchanges two bodies, then the energy: seven words each way through integer registers or
/// `memcpy`.
#[no_mangle]
pub unsafe extern "C" fn swap_energy(bodies: *mut Body, count: usize, i: usize, j: usize) -> f64 {
    core::slice::from_raw_parts_mut(bodies, count).swap(i, j);
    energy(bodies, count)
}
