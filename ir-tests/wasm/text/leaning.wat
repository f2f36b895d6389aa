;; Programs that lean on what their allocator does, though C says nothing of it: each has to be taken at its word.
;;
;; There is one block, at 64, which the cell at 16 leads to. It is full of zeros when it is given out, by one function or another, and the
;; programs add to it: x[0]^2 + … + x[n-1]^2, in a block that has had other numbers in it.
(module
  (memory (export "memory") 1)
  (global $end (mut i32) (i32.const 4096))
  (global $buffers (mut i32) (i32.const 32768))
  (data (i32.const 16) "\40\00\00\00")

  ;; Where the host's buffers are.
  (func $for_the_host (export "malloc") (param $size i32) (result i32)
    (global.get $buffers)
    (global.set $buffers (i32.add (global.get $buffers) (i32.and (i32.add (local.get $size) (i32.const 15)) (i32.const -16)))))

  (func $free (param $block i32)
    (i64.store (local.get $block) (i64.const -1)))

  ;; A zero in each turn.
  (func $malloc (param $size i32) (result i32) (local $p i32) (local $i i32)
    (local.set $p (i32.load (i32.const 16)))
    (loop $next
      (i32.store (i32.add (local.get $p) (local.get $i)) (i32.const 0))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 4))) (local.get $size))))
    (local.get $p))

  ;; One that is computed.
  (func $dlmalloc (param $size i32) (result i32) (local $p i32) (local $i i32)
    (local.set $p (i32.load (i32.const 16)))
    (loop $next
      (i32.store (i32.add (local.get $p) (local.get $i)) (i32.and (local.get $i) (i32.const 3)))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 4))) (local.get $size))))
    (local.get $p))

  ;; A loop in a loop, which begins with zero each time.
  (func $emmalloc (param $size i32) (result i32) (local $p i32) (local $i i32) (local $k i32)
    (local.set $p (i32.load (i32.const 16)))
    (loop $next
      (local.set $k (i32.const 0))
      (loop $inner
        (if (i32.eqz (local.get $k)) (then (i32.store (i32.add (local.get $p) (local.get $i)) (local.get $k))))
        (br_if $inner (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 1))) (i32.const 2))))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 4))) (local.get $size))))
    (local.get $p))

  ;; No loop.
  (func $memalign (param $size i32) (result i32) (local $p i32)
    (local.set $p (i32.load (i32.const 16)))
    (i64.store (local.get $p) (i64.const 0))
    (local.get $p))

  ;; A function that is called in a loop.
  (func $clear (param $p i32) (i32.store (local.get $p) (i32.const 0)))
  (func $dlmemalign (param $size i32) (result i32) (local $p i32) (local $i i32)
    (local.set $p (i32.load (i32.const 16)))
    (loop $next
      (call $clear (i32.add (local.get $p) (local.get $i)))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 4))) (local.get $size))))
    (local.get $p))

  ;; A block that is filled, not stored to.
  (func $aligned_alloc (param $size i32) (result i32) (local $p i32)
    (local.set $p (i32.load (i32.const 16)))
    (memory.fill (local.get $p) (i32.const 0) (local.get $size))
    (i32.store (i32.sub (local.get $p) (i32.const 4)) (local.get $size))
    (local.get $p))

  ;; Ones instead of zeros.
  (func $_Znwm (param $size i32) (result i32) (local $p i32)
    (local.set $p (i32.load (i32.const 16)))
    (f64.store (local.get $p) (f64.const 1))
    (local.get $p))

  ;; An arena, whose end everybody can see, inside of memory at 24.
  (func $_Znam (param $size i32) (result i32) (local $p i32)
    (local.set $p (i32.add (i32.load (i32.const 24)) (i32.const 4096)))
    (i32.store (i32.const 24) (i32.add (i32.load (i32.const 24)) (local.get $size)))
    (local.get $p))

  (func (export "looped") (param $x i32) (param $n i32) (result f64) (local $p i32) (local $sum f64)
    (loop $next
      (local.set $p (call $malloc (i32.const 8)))
      (f64.store (local.get $p) (f64.add (f64.load (local.get $p)) (f64.load (local.get $x))))
      (local.set $sum (f64.add (local.get $sum) (f64.mul (f64.load (local.get $p)) (f64.load (local.get $p)))))
      (call $free (local.get $p))
      (local.set $x (i32.add (local.get $x) (i32.const 8)))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))
  (func (export "computed") (param $x i32) (param $n i32) (result f64) (local $p i32) (local $sum f64)
    (loop $next
      (local.set $p (call $dlmalloc (i32.const 8)))
      (f64.store (local.get $p) (f64.add (f64.load (local.get $p)) (f64.load (local.get $x))))
      (local.set $sum (f64.add (local.get $sum) (f64.mul (f64.load (local.get $p)) (f64.load (local.get $p)))))
      (call $free (local.get $p))
      (local.set $x (i32.add (local.get $x) (i32.const 8)))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))
  (func (export "nested") (param $x i32) (param $n i32) (result f64) (local $p i32) (local $sum f64)
    (loop $next
      (local.set $p (call $emmalloc (i32.const 8)))
      (f64.store (local.get $p) (f64.add (f64.load (local.get $p)) (f64.load (local.get $x))))
      (local.set $sum (f64.add (local.get $sum) (f64.mul (f64.load (local.get $p)) (f64.load (local.get $p)))))
      (call $free (local.get $p))
      (local.set $x (i32.add (local.get $x) (i32.const 8)))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))
  (func (export "straight") (param $x i32) (param $n i32) (result f64) (local $p i32) (local $sum f64)
    (loop $next
      (local.set $p (call $memalign (i32.const 8)))
      (f64.store (local.get $p) (f64.add (f64.load (local.get $p)) (f64.load (local.get $x))))
      (local.set $sum (f64.add (local.get $sum) (f64.mul (f64.load (local.get $p)) (f64.load (local.get $p)))))
      (call $free (local.get $p))
      (local.set $x (i32.add (local.get $x) (i32.const 8)))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))
  (func (export "called") (param $x i32) (param $n i32) (result f64) (local $p i32) (local $sum f64)
    (loop $next
      (local.set $p (call $dlmemalign (i32.const 8)))
      (f64.store (local.get $p) (f64.add (f64.load (local.get $p)) (f64.load (local.get $x))))
      (local.set $sum (f64.add (local.get $sum) (f64.mul (f64.load (local.get $p)) (f64.load (local.get $p)))))
      (call $free (local.get $p))
      (local.set $x (i32.add (local.get $x) (i32.const 8)))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))
  (func (export "filled") (param $x i32) (param $n i32) (result f64) (local $p i32) (local $sum f64)
    (loop $next
      (local.set $p (call $aligned_alloc (i32.const 8)))
      (f64.store (local.get $p) (f64.add (f64.load (local.get $p)) (f64.load (local.get $x))))
      (local.set $sum (f64.add (local.get $sum) (f64.mul (f64.load (local.get $p)) (f64.load (local.get $p)))))
      (call $free (local.get $p))
      (local.set $x (i32.add (local.get $x) (i32.const 8)))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))
  (func (export "ones") (param $x i32) (param $n i32) (result f64) (local $p i32) (local $sum f64)
    (loop $next
      (local.set $p (call $_Znwm (i32.const 8)))
      (f64.store (local.get $p) (f64.mul (f64.load (local.get $p)) (f64.load (local.get $x))))
      (local.set $sum (f64.add (local.get $sum) (f64.mul (f64.load (local.get $p)) (f64.load (local.get $p)))))
      (call $free (local.get $p))
      (local.set $x (i32.add (local.get $x) (i32.const 8)))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))

  ;; How much of the arena is in use, before and after each turn: 8 n x[0]^2.
  (func (export "arena") (param $x i32) (param $n i32) (result f64) (local $before i32) (local $p i32) (local $sum f64)
    (loop $next
      (local.set $before (i32.load (i32.const 24)))
      (local.set $p (call $_Znam (i32.const 8)))
      (f64.store (local.get $p) (f64.mul (f64.load (local.get $x)) (f64.load (local.get $x))))
      (local.set $sum (f64.add (local.get $sum) (f64.sub
        (f64.mul (f64.convert_i32_s (i32.load (i32.const 24))) (f64.load (local.get $p)))
        (f64.mul (f64.convert_i32_s (local.get $before)) (f64.load (local.get $p))))))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum)))
