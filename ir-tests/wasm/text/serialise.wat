;; A float's bits go to memory below the stack pointer in pieces, and come back in pieces. No access there is of a
;; float's width, and the address is computed anew from the stack pointer each time: no cell of the memory is named.
(module (memory (export "memory") 2) (global (mut i32) (i32.const 66560))
  (func $slot (result i32) (i32.sub (global.get 0) (i32.const 16)))
  (func $twice (param i64) (result f64) (f64.mul (f64.const 2) (f64.reinterpret_i64 (local.get 0))))

  (func (export "halves") (param f64) (result f64) (local i64)
    (local.set 1 (i64.reinterpret_f64 (local.get 0)))
    (i64.store32 (i32.sub (global.get 0) (i32.const 16)) (local.get 1))
    (i64.store32 offset=4 (i32.sub (global.get 0) (i32.const 16)) (i64.shr_u (local.get 1) (i64.const 32)))
    (call $twice (i64.or (i64.load32_u (i32.sub (global.get 0) (i32.const 16)))
      (i64.shl (i64.load32_u offset=4 (i32.sub (global.get 0) (i32.const 16))) (i64.const 32)))))

  ;; The same with halves that are signed as they are loaded.
  (func (export "signed_halves") (param f64) (result f64) (local i64)
    (local.set 1 (i64.reinterpret_f64 (local.get 0)))
    (i64.store32 (call $slot) (local.get 1))
    (i64.store32 offset=4 (call $slot) (i64.shr_s (local.get 1) (i64.const 32)))
    (call $twice (i64.or (i64.load32_u (call $slot)) (i64.shl (i64.load32_s offset=4 (call $slot)) (i64.const 32)))))

  ;; Byte by byte in a loop, and back by halves.
  (func (export "looped") (param f64) (result f64) (local i64 i32 i32)
    (global.set 0 (local.tee 2 (i32.sub (global.get 0) (i32.const 16))))
    (local.set 1 (i64.reinterpret_f64 (local.get 0)))
    (loop
      (i64.store8 offset=8 (i32.add (local.get 2) (local.get 3)) (local.get 1))
      (local.set 1 (i64.shr_u (local.get 1) (i64.const 8)))
      (br_if 0 (i32.lt_u (local.tee 3 (i32.add (local.get 3) (i32.const 1))) (i32.const 8))))
    (local.set 1 (i64.or (i64.load32_u offset=8 (local.get 2)) (i64.shl (i64.load32_u offset=12 (local.get 2)) (i64.const 32))))
    (global.set 0 (i32.add (local.get 2) (i32.const 16)))
    (call $twice (local.get 1)))

  ;; By quarters, by way of a static buffer whose address is a parameter.
  (func $put (param i32 i64)
    (i64.store16 (local.get 0) (local.get 1))
    (i64.store16 offset=2 (local.get 0) (i64.shr_u (local.get 1) (i64.const 16)))
    (i64.store16 offset=4 (local.get 0) (i64.shr_u (local.get 1) (i64.const 32)))
    (i64.store16 offset=6 (local.get 0) (i64.shr_u (local.get 1) (i64.const 48))))
  (func $got (param i32) (result i64)
    (i64.or (i64.or (i64.load16_u (local.get 0)) (i64.shl (i64.load16_u offset=2 (local.get 0)) (i64.const 16)))
      (i64.or (i64.shl (i64.load16_u offset=4 (local.get 0)) (i64.const 32))
        (i64.shl (i64.load16_u offset=6 (local.get 0)) (i64.const 48)))))
  (func (export "quarters") (param f64 i32) (result f64)
    (call $put (i32.add (i32.const 128) (local.get 1)) (i64.reinterpret_f64 (local.get 0)))
    (call $twice (call $got (i32.add (i32.const 128) (local.get 1)))))

  ;; A constant, and over it the bits of a float, by an address of another name. What is loaded in the next block is no constant.
  (func (export "over_a_constant") (param f64 i32) (result f64)
    (i64.store offset=16 (local.get 1) (i64.const 0x3ff8000000000000))
    (i64.store (i32.add (local.get 1) (i32.const 16)) (i64.reinterpret_f64 (local.get 0)))
    (if (i32.eqz (local.get 1)) (then (unreachable)))
    (f64.mul (f64.const 2) (f64.reinterpret_i64 (i64.load offset=16 (local.get 1)))))
  (func (export "halves_over_constants") (param f64 i32) (result f64) (local i64)
    (local.set 2 (i64.reinterpret_f64 (local.get 0)))
    (i64.store32 offset=16 (local.get 1) (i64.const 0))
    (i64.store32 offset=20 (local.get 1) (i64.const 0x3ff80000))
    (i64.store32 (i32.add (local.get 1) (i32.const 16)) (local.get 2))
    (i64.store32 (i32.add (local.get 1) (i32.const 20)) (i64.shr_u (local.get 2) (i64.const 32)))
    (if (i32.eqz (local.get 1)) (then (unreachable)))
    (f64.mul (f64.const 2) (f64.reinterpret_i64 (i64.or (i64.load32_u offset=16 (local.get 1))
      (i64.shl (i64.load32_u offset=20 (local.get 1)) (i64.const 32))))))
)
