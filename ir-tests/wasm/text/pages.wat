;; Each iteration writes to one more page of memory, so that the states of the loop grow.
(module
  (memory (export "memory") 10)
  (func (export "pages") (param $p i32) (param $n i32) (result f64) (local $i i32) (local $q i32) (local $j i32)
    (loop $l
      (local.set $q (i32.add (i32.const 131072) (i32.mul (local.get $i) (i32.const 4096))))
      (local.set $j (i32.const 0))
      (loop $k
        (f64.store (local.get $q) (f64.mul (f64.load (local.get $p)) (f64.const 0.99)))
        (f64.store (local.get $p) (f64.add (f64.load (local.get $q)) (f64.mul (f64.load (local.get $q)) (f64.mul (f64.load (local.get $p)) (f64.const 0.001)))))
        (local.set $j (i32.add (local.get $j) (i32.const 1)))
        (br_if $k (i32.lt_s (local.get $j) (i32.const 1000))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $l (i32.lt_s (local.get $i) (local.get $n))))
    (f64.load (local.get $p)))
  ;; The same as long as a sum is below a bound.
  (func (export "until") (param $p i32) (param $n f64) (result f64) (local $i i32) (local $q i32) (local $j i32) (local $s f64)
    (loop $l
      (local.set $q (i32.add (i32.const 131072) (i32.mul (local.get $i) (i32.const 4096))))
      (local.set $j (i32.const 0))
      (loop $k
        (f64.store (local.get $q) (f64.mul (f64.load (local.get $p)) (f64.const 0.9999)))
        (f64.store (local.get $p) (f64.add (f64.load (local.get $q)) (f64.mul (f64.load (local.get $q)) (f64.mul (f64.load (local.get $p)) (f64.const 0.00001)))))
        (local.set $s (f64.add (local.get $s) (f64.load (local.get $p))))
        (local.set $j (i32.add (local.get $j) (i32.const 1)))
        (br_if $k (i32.lt_s (local.get $j) (i32.const 1000))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $l (f64.lt (local.get $s) (local.get $n))))
    (f64.mul (local.get $s) (f64.load (local.get $p))))
)
