;; Blocks of an allocator: apart, swapped, escaped, released and given out again.
;;
;; The allocator has blocks of 64 bytes and a list of those that were released, last first, so that the next block is the one that
;; was released last. It writes into released blocks. It is known by its names.
(module
  (memory (export "memory") 1)
  ;; The list, and the end of what was ever given out.
  (global $free_list (mut i32) (i32.const 0))
  (global $end (mut i32) (i32.const 4096))

  (func $malloc (param $size i32) (result i32) (local $block i32)
    (if (result i32) (global.get $free_list)
      (then
        (local.set $block (global.get $free_list))
        (global.set $free_list (i32.load (local.get $block)))
        (local.get $block))
      (else
        (local.set $block (global.get $end))
        (global.set $end (i32.add (local.get $block) (i32.const 64)))
        (local.get $block))))

  (func $free (param $block i32)
    ;; Nothing may read this any more.
    (f64.store offset=8 (local.get $block) (f64.const -77))
    (i64.store (local.get $block) (i64.const -1))
    (i32.store (local.get $block) (global.get $free_list))
    (global.set $free_list (local.get $block)))

  (func $realloc (param $old i32) (param $size i32) (result i32) (local $new i32)
    (local.set $new (call $malloc (local.get $size)))
    (memory.copy (local.get $new) (local.get $old) (i32.const 64))
    (call $free (local.get $old))
    (local.get $new))

  ;; The same bytes, turn by turn: sum of x[i]^4.
  (func (export "reuse") (param $x i32) (param $n i32) (result f64) (local $sum f64) (local $p i32)
    (loop $next
      (local.set $p (call $malloc (i32.const 8)))
      (f64.store (local.get $p) (f64.mul (f64.load (local.get $x)) (f64.load (local.get $x))))
      (local.set $sum (f64.add (local.get $sum) (f64.mul (f64.load (local.get $p)) (f64.load (local.get $p)))))
      (call $free (local.get $p))
      (local.set $x (i32.add (local.get $x) (i32.const 8)))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))

  ;; Two blocks in a loop, one is only read: x[1] x[0]^n.
  (func (export "two") (param $x i32) (param $n i32) (result f64) (local $p i32) (local $q i32) (local $r f64)
    (local.set $p (call $malloc (i32.const 8)))
    (local.set $q (call $malloc (i32.const 8)))
    (f64.store (local.get $p) (f64.load (local.get $x)))
    (f64.store (local.get $q) (f64.load offset=8 (local.get $x)))
    (loop $next
      (f64.store (local.get $q) (f64.mul (f64.load (local.get $q)) (f64.load (local.get $p))))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.set $r (f64.load (local.get $q)))
    (call $free (local.get $p))
    (call $free (local.get $q))
    (local.get $r))

  ;; Two blocks change places, a third is only read: x[0]^(2^n) x[1]^(2^n - 1).
  (func (export "swap") (param $x i32) (param $n i32) (result f64)
    (local $from i32) (local $to i32) (local $other i32) (local $scale i32) (local $r f64)
    (local.set $from (call $malloc (i32.const 8)))
    (local.set $to (call $malloc (i32.const 8)))
    (local.set $scale (call $malloc (i32.const 8)))
    (f64.store (local.get $from) (f64.load (local.get $x)))
    (f64.store (local.get $scale) (f64.load offset=8 (local.get $x)))
    (loop $next
      (f64.store (local.get $to)
        (f64.mul (f64.mul (f64.load (local.get $from)) (f64.load (local.get $from))) (f64.load (local.get $scale))))
      (local.set $other (local.get $from))
      (local.set $from (local.get $to))
      (local.set $to (local.get $other))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.set $r (f64.load (local.get $from)))
    (call $free (local.get $scale))
    (call $free (local.get $to))
    (call $free (local.get $from))
    (local.get $r))

  ;; The address of a block lies in a cell, and the block is written through what is loaded from there: x[0] x[1].
  (func (export "escaped") (param $x i32) (param $cell i32) (result f64) (local $p i32) (local $before f64) (local $r f64)
    (local.set $p (call $malloc (i32.const 8)))
    (f64.store (local.get $p) (f64.load (local.get $x)))
    (i32.store (local.get $cell) (local.get $p))
    (local.set $before (f64.load (local.get $p)))
    (f64.store (i32.load (local.get $cell)) (f64.load offset=8 (local.get $x)))
    (local.set $r (f64.mul (local.get $before) (f64.load (local.get $p))))
    (i32.store (local.get $cell) (i32.const 0))
    (call $free (local.get $p))
    (local.get $r))

  ;; The same through a block of pointers that no other code knows of.
  (func (export "held") (param $x i32) (result f64) (local $p i32) (local $q i32) (local $row i32) (local $before f64) (local $r f64)
    (local.set $p (call $malloc (i32.const 8)))
    (local.set $q (call $malloc (i32.const 8)))
    (local.set $row (call $malloc (i32.const 8)))
    (i32.store (local.get $row) (local.get $p))
    (i32.store offset=4 (local.get $row) (local.get $q))
    (f64.store (i32.load (local.get $row)) (f64.load (local.get $x)))
    (f64.store (i32.load offset=4 (local.get $row)) (f64.load offset=8 (local.get $x)))
    (local.set $before (f64.load (local.get $p)))
    (f64.store (i32.load (local.get $row)) (f64.load (local.get $q)))
    (local.set $r (f64.mul (local.get $before) (f64.load (local.get $p))))
    (call $free (i32.load (local.get $row)))
    (call $free (i32.load offset=4 (local.get $row)))
    (call $free (local.get $row))
    (local.get $r))

  ;; A block is released, and its bytes are another block's: x[0]^2 x[1].
  (func (export "again") (param $x i32) (result f64) (local $p i32) (local $q i32) (local $v f64) (local $w f64)
    (local.set $p (call $malloc (i32.const 8)))
    (f64.store (local.get $p) (f64.load (local.get $x)))
    (local.set $v (f64.load (local.get $p)))
    (call $free (local.get $p))
    (local.set $q (call $malloc (i32.const 8)))
    (f64.store (local.get $q) (f64.load offset=8 (local.get $x)))
    (local.set $w (f64.load (local.get $q)))
    (call $free (local.get $q))
    (f64.mul (f64.mul (local.get $v) (local.get $v)) (local.get $w)))

  ;; Both are alive, one is released between two others: x[0]^2 x[1]^2 x[2].
  (func (export "between") (param $x i32) (result f64)
    (local $p i32) (local $q i32) (local $r i32) (local $u f64) (local $v f64) (local $w f64)
    (local.set $p (call $malloc (i32.const 8)))
    (local.set $q (call $malloc (i32.const 8)))
    (f64.store (local.get $p) (f64.load (local.get $x)))
    (f64.store offset=8 (local.get $q) (f64.load offset=8 (local.get $x)))
    (local.set $u (f64.load (local.get $p)))
    (local.set $v (f64.load offset=8 (local.get $q)))
    (call $free (local.get $q))
    (local.set $r (call $malloc (i32.const 8)))
    (f64.store offset=8 (local.get $r) (f64.load offset=16 (local.get $x)))
    (local.set $w (f64.load offset=8 (local.get $r)))
    (call $free (local.get $r))
    (call $free (local.get $p))
    (f64.mul (f64.mul (f64.mul (local.get $u) (local.get $u)) (f64.mul (local.get $v) (local.get $v))) (local.get $w)))

  ;; A block moves: x[0]^2 x[1].
  (func (export "moved") (param $x i32) (result f64) (local $p i32) (local $v f64) (local $r f64)
    (local.set $p (call $malloc (i32.const 8)))
    (f64.store offset=8 (local.get $p) (f64.load (local.get $x)))
    (local.set $v (f64.load offset=8 (local.get $p)))
    (local.set $p (call $realloc (local.get $p) (i32.const 16)))
    (f64.store offset=8 (local.get $p) (f64.mul (f64.load offset=8 (local.get $p)) (f64.load offset=8 (local.get $x))))
    (local.set $r (f64.mul (local.get $v) (f64.load offset=8 (local.get $p))))
    (call $free (local.get $p))
    (local.get $r))

  ;; A function that is told of a block writes to it, and one that is told of another does not: x[0] x[1].
  (func $put (param $at i32) (param $v f64) (f64.store (local.get $at) (local.get $v)))
  (func (export "told") (param $x i32) (result f64) (local $p i32) (local $q i32) (local $u f64) (local $r f64)
    (local.set $p (call $malloc (i32.const 8)))
    (local.set $q (call $malloc (i32.const 8)))
    (call $put (local.get $p) (f64.load (local.get $x)))
    (local.set $u (f64.load (local.get $p)))
    (call $put (local.get $q) (f64.const 5))
    (call $put (local.get $p) (f64.load offset=8 (local.get $x)))
    (local.set $r (f64.mul (local.get $u) (f64.load (local.get $p))))
    (call $free (local.get $q))
    (call $free (local.get $p))
    (local.get $r)))
