//! Second derivatives of instances, and drivers: closed forms, twice, memory that is put back.

use brolga_wasm::brolga::drivers::{Derivatives, Pattern, Star, Sweep};
use brolga_wasm::brolga::{ArgActivity, Mode, Options};
use brolga_wasm::{Error, Gradient, Hessian, Instance, Module, Point, Range, Val, options};

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
        instance.clear_batches();
        instance.set_shadow_f64(x, &[10.0, 0.0, 0.0]).unwrap();
        let place = x as usize..x as usize + 24;
        let bytes = |v: [f64; 3]| v.map(f64::to_le_bytes).concat();
        instance.tangents_mut(1).unwrap()[place.clone()].copy_from_slice(&bytes([1.0, 0.0, -1.0]));
        instance.products_mut(1).unwrap()[place.clone()].copy_from_slice(&bytes([0.5, 0.0, 0.0]));
        let args = [Val::I32(x as i32), Val::I32(3)];
        let found = instance.product(&hessian, &args, &[None, None], &[Val::F64(1.0)]).unwrap();
        assert_eq!(found.values, [Val::F64(36.0)]);
        assert_eq!(instance.read_f64(x, 3).unwrap(), [2.0, 4.0, 6.0]);
        // The seed of an element's double counts twice; so does the seed of its product.
        assert_eq!(instance.shadow_f64(x, 3).unwrap(), [23.0, 12.0, 27.0]);
        assert_eq!(instance.products_mut(1).unwrap()[place.clone()], bytes([7.0, 0.0, -18.0])[..]);
        assert_eq!(instance.tangents_mut(1).unwrap()[place], bytes([2.0, 0.0, -2.0])[..]);
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
    let overlapping = Point::new(&mut instance, "cubes", &args, &[Range::f64(x, 2), Range::f64(x + 8, 1)], &[]);
    assert!(matches!(overlapping.err(), Some(Error::Usage(m)) if m.contains("overlap")));
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
        // The gradient keeps account of parts of floats, so this is one of the tangent.
        assert_eq!(p.hessian(&[1.0]).unwrap(), [[0.0, 6.0], [6.0, 10.0]]);
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

/// What is asked along several directions is what is asked along each, bit for bit; memory that
/// grows has room for all of them.
#[test]
fn several_at_once() {
    let module = module();
    let values = [1.0, 2.0, 3.0, -1.0, 0.5, 0.25, -2.0, 7.0, 1.5];
    let mut instance = Instance::new(&module).unwrap();
    let x = instance.alloc_f64(&values).unwrap();
    let (args, floats) = ([Val::I32(x as i32), Val::I32(9)], [Range::f64(x, 9)]);
    let mut p = Point::new(&mut instance, "cubes", &args, &floats, &floats).unwrap();
    let along = |n: usize| -> Vec<Vec<f64>> {
        (0..n).map(|k| (0..9).map(|i| ((7 * k + i) % 5) as f64 - 1.25).collect()).collect()
    };
    for n in [2, 3, 8, 11] {
        let along = along(n);
        let single: Vec<_> = along.iter().map(|v| p.jvp(v).unwrap().1).collect();
        assert_eq!(p.jvps(&along).unwrap(), single, "{n}");
        let seeds = [0.5, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        let single: Vec<_> = along.iter().map(|v| p.hvp(&seeds, v).unwrap().product).collect();
        assert_eq!(p.hvps(&seeds, &along).unwrap(), single, "{n}");
        let seeds: Vec<Vec<f64>> = along.iter().map(|v| [&[0.5][..], v].concat()).collect();
        let single: Vec<_> = seeds.iter().map(|s| p.vjp(s).unwrap().1).collect();
        // Twice by one forward pass.
        let rows = |p: &mut Point| p.pulled(|rows| Ok([rows(&seeds)?, rows(&seeds)?])).unwrap();
        assert_eq!(rows(&mut p), [single.clone(), single], "{n}");
    }
    let grown = [Val::I32(x as i32), Val::F64(5.0)];
    let mut instance = Instance::new(&module).unwrap();
    let at = instance.alloc_f64(&[3.0]).unwrap();
    assert_eq!(at, x);
    let mut p = Point::new(&mut instance, "grown", &grown, &[Range::f64(x, 1)], &[]).unwrap();
    for _ in 0..2 {
        let found = p.jvps(&[vec![1.0, 1.0], vec![0.0, 2.0], vec![0.0, 0.0]]).unwrap();
        assert_eq!(found, [[39.0], [60.0], [0.0]]);
    }
    let mut instance = Instance::new(&module).unwrap();
    let x = instance.alloc_f32(&[3.0, 5.0]).unwrap();
    let mut p = Point::new(&mut instance, "singles", &[Val::I32(x as i32)], &[Range::f32(x, 2)], &[]).unwrap();
    assert_eq!(p.jvps(&[vec![1.0, 0.0], vec![0.0, 1.0], vec![1.0, -1.0]]).unwrap(), [[30.0], [9.0], [21.0]]);
}

/// `Σ (x + t v)³` has the coefficients `Σ x³, 3 Σ x² v, 3 Σ x v², Σ v³` and then zeros; what is
/// doubled in memory has those of a line.
#[test]
fn taylor_coefficients() {
    let module = module();
    let mut instance = Instance::new(&module).unwrap();
    let x = instance.alloc_f64(&[1.0, 2.0]).unwrap();
    let (args, floats) = ([Val::I32(x as i32), Val::I32(2)], [Range::f64(x, 2)]);
    let mut p = Point::new(&mut instance, "cubes", &args, &floats, &floats).unwrap();
    for order in [1, 2, 3, 5, 10] {
        let found = p.taylor(&[1.0, -0.5], order).unwrap();
        let wanted = [[9.0, 2.0, 4.0], [-3.0, 2.0, -1.0], [4.5, 0.0, 0.0], [0.875, 0.0, 0.0]];
        assert_eq!(found.len(), order + 1);
        for (k, found) in found.iter().enumerate() {
            assert_eq!(found[..], wanted.get(k).copied().unwrap_or_default(), "{k} of {order}");
        }
    }
    let wrong = p.taylor(&[1.0, 0.0], 11);
    assert!(matches!(&wrong, Err(Error::Usage(m)) if m.contains("1 to 10")), "{wrong:?}");
}

/// The calls of an instance of which drivers are made: sets of directions and of seeds, shadows
/// that hold something, and what does not fit.
#[test]
fn sets_of_an_instance() {
    let module = module();
    let args = [ArgActivity::Const, ArgActivity::Const];
    let of = |mode, width| Gradient::with_options(&module, "cubes", &args, &Options { mode, width, ..options() });
    let (tangent, pair) = (of(Mode::Tangent, 2).unwrap(), of(Mode::Split, 2).unwrap());
    let mut instance = Instance::new(&module).unwrap();
    let x = instance.alloc_f64(&[1.0, 2.0]).unwrap();
    let args = [Val::I32(x as i32), Val::I32(2)];
    let place = 2 * x as usize..2 * x as usize + 32;
    let bytes = |v: [f64; 4]| v.map(f64::to_le_bytes).concat();
    instance.shadows_mut(2).unwrap()[place.clone()].copy_from_slice(&bytes([1.0, 0.0, 0.0, 2.0]));
    let found = instance.tangents(&tangent, &args, &[vec![None, None], vec![None, None]]).unwrap();
    let tangents: Vec<_> = found.iter().map(|f| f.tangents[0]).collect();
    assert_eq!(tangents, [Some(Val::F64(3.0)), Some(Val::F64(24.0))]);
    assert_eq!(instance.shadows(2)[place.clone()], bytes([2.0, 0.0, 0.0, 4.0]));

    instance.write_f64(x, &[1.0, 2.0]).unwrap();
    instance.clear_batches();
    let (_, mut back) = instance.forward(&pair, &args).unwrap();
    for _ in 0..2 {
        instance.clear_batches();
        instance.shadows_mut(2).unwrap()[place.clone()].copy_from_slice(&bytes([1.0, 0.0, 0.0, 2.0]));
        instance.pullbacks(&mut back, &[[Val::F64(1.0)], [Val::F64(0.5)]]).unwrap();
        // A double in memory is twice what it was.
        assert_eq!(instance.shadows(2)[place.clone()], bytes([5.0, 1.5, 12.0, 10.0]));
    }
    let usage = |e: Error, part: &str| assert!(matches!(&e, Error::Usage(m) if m.contains(part)), "{e:?}");
    usage(instance.pullback(&mut back, &[Val::F64(1.0)]).unwrap_err(), "1 sets of seeds are given, the width is 2");
    usage(instance.tangent(&tangent, &args, &[None, None]).unwrap_err(), "1 sets of directions");
    let uneven = [vec![None], vec![None, None, None]];
    usage(instance.tangents(&tangent, &args, &uneven).unwrap_err(), "1 directions are given, 2 are wanted");
    assert!(matches!(of(Mode::Tangent, 65), Err(Error::Diagnostics(all)) if all.0[0].code == "AD0180"));
}
