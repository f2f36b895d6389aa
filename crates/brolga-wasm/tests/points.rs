//! Second derivatives of instances, and drivers: closed forms, twice, memory that is put back.

use brolga_wasm::brolga::drivers::{Derivatives, Pattern, Star, Sweep};
use brolga_wasm::{Error, Hessian, Instance, Module, Point, Range, Val};

/// The sum of cubes of n doubles, each of which is doubled afterwards; a chain of products of
/// neighbours through memory that the function allocates by growing it; singles.
const TEXT: &str = r#"(module (memory (export "memory") 1)
  (global $calls (mut i32) (i32.const 0))
  (func (export "cubes") (param $x i32) (param $n i32) (result f64) (local $s f64) (local $v f64)
    (loop $next
      (local.set $v (f64.load (local.get $x)))
      (local.set $s (f64.add (local.get $s) (f64.mul (local.get $v) (f64.mul (local.get $v) (local.get $v)))))
      (f64.store (local.get $x) (f64.add (local.get $v) (local.get $v)))
      (local.set $x (i32.add (local.get $x) (i32.const 8)))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $s))
  (func (export "grown") (param $x i32) (param $by f64) (result f64) (local $p i32)
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (if (i32.ne (global.get $calls) (i32.const 1)) (then unreachable))
    (local.set $p (i32.mul (memory.grow (i32.const 1)) (i32.const 65536)))
    (f64.store (local.get $p) (f64.mul (f64.load (local.get $x)) (f64.load (local.get $x))))
    (f64.mul (local.get $by) (f64.load (local.get $p))))
  (func (export "singles") (param $x i32) (result f32)
    (f32.mul (f32.load (local.get $x)) (f32.mul (f32.load (local.get $x)) (f32.load offset=4 (local.get $x))))))"#;

fn module() -> Module {
    Module::new(TEXT).expect("it is a module")
}

#[test]
fn a_product_and_what_was_there() {
    let module = module();
    let hessian = Hessian::new(&module, "cubes").unwrap();
    let mut instance = Instance::new(&module).unwrap();
    let x = instance.alloc_f64(&[1.0, 2.0, 3.0]).unwrap();
    for _ in 0..2 {
        instance.write_f64(x, &[1.0, 2.0, 3.0]).unwrap();
        instance.clear_shadow();
        instance.clear_second();
        instance.set_shadow_f64(x, &[10.0, 0.0, 0.0]).unwrap();
        let place = x as usize..x as usize + 24;
        let bytes = |v: [f64; 3]| v.map(f64::to_le_bytes).concat();
        instance.tangent_mut().unwrap()[place.clone()].copy_from_slice(&bytes([1.0, 0.0, -1.0]));
        instance.product_mut().unwrap()[place.clone()].copy_from_slice(&bytes([0.5, 0.0, 0.0]));
        let args = [Val::I32(x as i32), Val::I32(3)];
        let found = instance.product(&hessian, &args, &[None, None], &[Val::F64(1.0)]).unwrap();
        assert_eq!(found.values, [Val::F64(36.0)]);
        assert_eq!(instance.read_f64(x, 3).unwrap(), [2.0, 4.0, 6.0]);
        // The seed of an element's double counts twice; so does the seed of its product.
        assert_eq!(instance.shadow_f64(x, 3).unwrap(), [23.0, 12.0, 27.0]);
        assert_eq!(instance.product_mut().unwrap()[place.clone()], bytes([7.0, 0.0, -18.0])[..]);
        assert_eq!(instance.tangent_mut().unwrap()[place], bytes([2.0, 0.0, -2.0])[..]);
    }
    let args = [Val::I32(x as i32), Val::I32(3)];
    let wrong = instance.product(&hessian, &args, &[None], &[Val::F64(1.0)]);
    assert!(matches!(&wrong, Err(Error::Usage(m)) if m.contains("directions are given")), "{wrong:?}");
    let other = Module::new("(module (memory 1))").unwrap();
    let wrong = Instance::new(&other).unwrap().product(&hessian, &args, &[None, None], &[Val::F64(1.0)]);
    assert!(matches!(&wrong, Err(Error::Usage(m)) if m.contains("of another module")), "{wrong:?}");
}

#[test]
fn drivers_of_an_instance() {
    let module = module();
    let mut instance = Instance::new(&module).unwrap();
    let values = [1.0, 2.0, 3.0, -1.0];
    let x = instance.alloc_f64(&values).unwrap();
    let (args, floats) = ([Val::I32(x as i32), Val::I32(4)], [Range::f64(x, 4)]);
    let mut p = Point::new(&mut instance, "cubes", &args, &floats, &floats).unwrap();
    let mut wanted = vec![values.iter().map(|v| 3.0 * v * v).collect::<Vec<f64>>()];
    wanted.extend((0..4).map(|i| (0..4).map(|j| if i == j { 2.0 } else { 0.0 }).collect::<Vec<f64>>()));
    let pattern = Pattern::new(4, [vec![0, 1, 2, 3], vec![0], vec![1], vec![2], vec![3]]).unwrap();
    for _ in 0..2 {
        assert_eq!((p.inputs(), p.outputs()), (4, 5));
        assert_eq!(p.jacobian_by(Sweep::Forward).unwrap(), wanted);
        assert_eq!(p.jacobian_by(Sweep::Reverse).unwrap(), wanted);
        assert_eq!(p.jacobian().unwrap(), wanted);
        assert_eq!(pattern.dense(&p.sparse_jacobian(&pattern).unwrap()), wanted);
        let found = p.hvp(&[0.5, 1.0, 0.0, 0.0, 0.0], &[1.0, 1.0, 0.0, 1.0]).unwrap();
        assert_eq!((found.value, found.product), (vec![35.0, 2.0, 4.0, 6.0, -2.0], vec![3.0, 6.0, 0.0, -3.0]));
        assert_eq!(found.gradient, [3.5, 6.0, 13.5, 1.5]);
        let star = Star::new(&Pattern::banded(4, 0, 0)).unwrap();
        let seeds = [1.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(p.sparse_hessian(&seeds, &star).unwrap(), [[6.0], [12.0], [18.0], [-6.0]]);
    }
    let end = instance.memory_size() as u32;
    let outside = Point::new(&mut instance, "cubes", &args, &[Range::f64(end - 8, 2)], &[]);
    assert!(matches!(outside.err(), Some(Error::Usage(m)) if m.contains("do not lie in memory")));
    let twice = Point::new(&mut instance, "cubes", &args, &[Range::f64(x, 2), Range::f64(x + 8, 1)], &[]);
    assert!(matches!(twice.err(), Some(Error::Usage(m)) if m.contains("overlap")));
}

/// Memory that has grown, and a global that has changed, are as before in the next run.
#[test]
fn memory_that_grows_is_put_back() {
    let module = module();
    let mut instance = Instance::new(&module).unwrap();
    let x = instance.alloc_f64(&[3.0]).unwrap();
    let size = instance.memory_size();
    let args = [Val::I32(x as i32), Val::F64(5.0)];
    let mut p = Point::new(&mut instance, "grown", &args, &[Range::f64(x, 1)], &[]).unwrap();
    for _ in 0..2 {
        assert_eq!(p.value_and_gradient().unwrap(), (45.0, vec![9.0, 30.0]));
        assert_eq!(p.jvp(&[1.0, 1.0]).unwrap(), (vec![45.0], vec![39.0]));
        // The gradient keeps account of parts of floats, which stays out of second derivatives.
        let second = p.hessian(&[1.0]);
        assert!(matches!(&second, Err(Error::Diagnostics(all)) if all.0[0].code == "AD0150"), "{second:?}");
    }
    assert!(instance.memory_size() > size, "the last run has grown it");
}

#[test]
fn singles_in_memory() {
    let module = module();
    let mut instance = Instance::new(&module).unwrap();
    let x = instance.alloc_f32(&[3.0, 5.0]).unwrap();
    let mut p = Point::new(&mut instance, "singles", &[Val::I32(x as i32)], &[Range::f32(x, 2)], &[]).unwrap();
    assert_eq!(p.value_and_gradient().unwrap(), (45.0, vec![30.0, 9.0]));
    assert_eq!(p.hessian(&[1.0]).unwrap(), [[10.0, 6.0], [6.0, 0.0]]);
}
