;; Integers are loaded, calculated with, and become floats. Whether a float's cotangent is lost by that depends on what lay there.
(module (memory (export "memory") 1)
  (data (i32.const 1024) "\15\7c\4a\7f\b9\79\37\9e")
  (func $twice (param i64) (result f64) (f64.mul (f64.const 2) (f64.reinterpret_i64 (local.get 0))))

  ;; A float of the host's: arithmetic on its bits has no derivative.
  (func (export "tripled") (param i32) (result f64) (call $twice (i64.mul (i64.load (local.get 0)) (i64.const 3))))
  (func (export "mixed") (param i32) (result f64) (local i64)
    (local.set 1 (i64.load (local.get 0)))
    (call $twice (i64.xor (local.get 1) (i64.shr_u (local.get 1) (i64.const 40)))))
  (func (export "carried") (param i32) (result f64) (local i64)
    (local.set 1 (i64.load (local.get 0)))
    (call $twice (i64.add (local.get 1) (i64.and (local.get 1) (i64.const 1)))))

  ;; The same by way of memory, of another function, and of a copy.
  (func $step (param i32 i32) (i64.store (local.get 1) (i64.mul (i64.load (local.get 0)) (i64.const 3))))
  (func (export "handed_on") (param i32) (result f64)
    (call $step (local.get 0) (i32.const 64))
    (call $twice (i64.sub (i64.load (i32.const 64)) (i64.const 5))))
  (func (export "copied") (param i32) (result f64)
    (memory.copy (i32.const 64) (local.get 0) (i32.const 8))
    (call $twice (i64.rotl (i64.load (i32.const 64)) (i64.const 3))))
  ;; What was computed is read as a float without a cast.
  (func (export "read_as_float") (param i32) (result f64)
    (call $step (local.get 0) (i32.const 64))
    (f64.load (i32.const 64)))

  ;; A random generator: its state is a number, of the module's data, and what is made of it constant.
  (func $next (result i64) (local i64)
    (local.set 0 (i64.load (i32.const 1024)))
    (local.set 0 (i64.xor (local.get 0) (i64.shl (local.get 0) (i64.const 13))))
    (local.set 0 (i64.xor (local.get 0) (i64.shr_u (local.get 0) (i64.const 7))))
    (i64.store (i32.const 1024) (local.get 0))
    (local.get 0))
  (func $uniform (result f64)
    (f64.sub (f64.reinterpret_i64 (i64.or (i64.shr_u (call $next) (i64.const 12)) (i64.const 0x3ff0000000000000))) (f64.const 1)))
  (func (export "weighed") (param i32 i32) (result f64) (local f64 i32)
    (loop
      (local.set 2 (f64.add (local.get 2)
        (f64.mul (call $uniform) (f64.load (i32.add (local.get 0) (i32.shl (local.get 3) (i32.const 3)))))))
      (br_if 0 (i32.lt_u (local.tee 3 (i32.add (local.get 3) (i32.const 1))) (local.get 1))))
    (local.get 2))
  ;; A generator whose state is seeded by the bits of a float.
  (func (export "seeded_by_float") (param f64) (result f64)
    (i64.store (i32.const 1024) (i64.reinterpret_f64 (local.get 0)))
    (call $uniform))
)
