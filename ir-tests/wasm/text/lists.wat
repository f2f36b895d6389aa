;; An allocator that keeps lists, and programs whose blocks are other blocks' bytes.
;;
;; The allocator has a header of eight bytes in front of each block: its size, and a mark. Released blocks are in a list that goes through
;; their first words; of them the first that is long enough is taken, and what is left of it is a block again. It fills rows
;; with marks and with counts, as others do for their tables. It is known by its names, and called as it is.
(module
  (memory (export "memory") 1)
  (global $calls (mut i32) (i32.const 0))
  ;; At 16 the list, at 20 the end of what was ever given out, from 32 on a table whose entries point at themselves, from 64 on a row of
  ;; marks.
  (data (i32.const 20) "\00\10\00\00")

  (func $start (local $p i32)
    (local.set $p (i32.const 32))
    (loop $next
      (i32.store (local.get $p) (local.get $p))
      (br_if $next (i32.lt_u (local.tee $p (i32.add (local.get $p) (i32.const 4))) (i32.const 64))))
    (loop $mark
      (i32.store (local.get $p) (i32.const 7))
      (br_if $mark (i32.lt_u (local.tee $p (i32.add (local.get $p) (i32.const 4))) (i32.const 96)))))

  (func $malloc (param $size i32) (result i32) (local $at i32) (local $p i32) (local $rest i32)
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (if (i32.eqz (i32.load (i32.const 64))) (then (call $start)))
    (local.set $size (i32.and (i32.add (local.get $size) (i32.const 15)) (i32.const -8)))
    (local.set $at (i32.const 16))
    (block $found
      (loop $look
        (br_if $found (i32.eqz (local.tee $p (i32.load (local.get $at)))))
        (br_if $found (i32.ge_u (i32.load (local.get $p)) (local.get $size)))
        (local.set $at (i32.add (local.get $p) (i32.const 8)))
        (br $look)))
    (if (local.get $p)
      (then
        (local.set $rest (i32.sub (i32.load (local.get $p)) (local.get $size)))
        (if (i32.ge_u (local.get $rest) (i32.const 16))
          (then
            ;; Its header lies in the middle of what was a block.
            (i32.store (i32.add (local.get $p) (local.get $size)) (local.get $rest))
            (i32.store offset=4 (i32.add (local.get $p) (local.get $size)) (i32.const -1))
            (i32.store offset=8 (i32.add (local.get $p) (local.get $size)) (i32.load offset=8 (local.get $p)))
            (i32.store (local.get $at) (i32.add (local.get $p) (local.get $size)))
            (i32.store (local.get $p) (local.get $size)))
          (else (i32.store (local.get $at) (i32.load offset=8 (local.get $p))))))
      (else
        (local.set $p (i32.load (i32.const 20)))
        (i32.store (i32.const 20) (i32.add (local.get $p) (local.get $size)))
        (i32.store (local.get $p) (local.get $size))))
    (i32.store offset=4 (local.get $p) (i32.const 1))
    (i32.add (local.get $p) (i32.const 8)))

  (func $free (param $block i32)
    (if (i32.eqz (local.get $block)) (then (return)))
    (i32.store (local.get $block) (i32.load (i32.const 16)))
    (i32.store offset=4 (local.get $block) (i32.const -1))
    (i32.store (i32.const 16) (i32.sub (local.get $block) (i32.const 8))))

  (func $calloc (param $n i32) (param $size i32) (result i32) (local $p i32)
    (local.set $p (call $malloc (i32.mul (local.get $n) (local.get $size))))
    (memory.fill (local.get $p) (i32.const 0) (i32.mul (local.get $n) (local.get $size)))
    (local.get $p))

  (func $realloc (param $old i32) (param $size i32) (result i32) (local $new i32) (local $n i32)
    (local.set $new (call $malloc (local.get $size)))
    (local.set $n (i32.sub (i32.load (i32.sub (local.get $old) (i32.const 8))) (i32.const 8)))
    (memory.copy (local.get $new) (local.get $old)
      (select (local.get $n) (local.get $size) (i32.lt_u (local.get $n) (local.get $size))))
    (call $free (local.get $old))
    (local.get $new))

  ;; A list of nodes, forwards; then its squares, in blocks of another size out of the same bytes: sum of x[i]^4.
  (func (export "nodes") (param $x i32) (param $n i32) (result f64) (local $i i32) (local $p i32) (local $head i32) (local $sum f64)
    (loop $fill
      (local.set $p (call $malloc (i32.const 16)))
      (i32.store (local.get $p) (local.get $head))
      (f64.store offset=8 (local.get $p) (f64.load (i32.add (local.get $x) (i32.shl (local.get $i) (i32.const 3)))))
      (local.set $head (local.get $p))
      (br_if $fill (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
    (loop $walk
      (local.set $p (i32.load (local.get $head)))
      (f64.store offset=8 (local.get $head)
        (f64.mul (f64.load offset=8 (local.get $head)) (f64.load offset=8 (local.get $head))))
      (local.set $sum (f64.add (local.get $sum) (call $squared (local.get $head))))
      (br_if $walk (local.tee $head (local.get $p))))
    (local.get $sum))

  (func $squared (param $node i32) (result f64) (local $v f64) (local $p i32) (local $q i32) (local $r f64)
    (local.set $v (f64.load offset=8 (local.get $node)))
    (call $free (local.get $node))
    (local.set $p (call $malloc (i32.const 4)))
    (local.set $q (call $malloc (i32.const 24)))
    (f64.store offset=16 (local.get $q) (f64.mul (local.get $v) (local.get $v)))
    (i32.store (local.get $p) (local.get $q))
    (local.set $r (f64.load offset=16 (i32.load (local.get $p))))
    (call $free (local.get $q))
    (call $free (local.get $p))
    (local.get $r))

  ;; A vector that grows; each element is x[0] times the one before: x[0]^n.
  (func (export "grows") (param $x i32) (param $n i32) (result f64) (local $i i32) (local $p i32) (local $r f64)
    (local.set $p (call $malloc (i32.const 8)))
    (f64.store (local.get $p) (f64.load (local.get $x)))
    (loop $push
      (local.set $i (i32.add (local.get $i) (i32.const 8)))
      (local.set $p (call $realloc (local.get $p) (i32.add (local.get $i) (i32.const 8))))
      (f64.store (i32.add (local.get $p) (local.get $i))
        (f64.mul (f64.load (local.get $x)) (f64.load (i32.sub (i32.add (local.get $p) (local.get $i)) (i32.const 8)))))
      (br_if $push (i32.lt_s (i32.shr_u (local.get $i) (i32.const 3)) (i32.sub (local.get $n) (i32.const 1)))))
    (local.set $r (f64.load (i32.add (local.get $p) (local.get $i))))
    (call $free (local.get $p))
    (local.get $r))

  ;; A histogram that begins with zeros, where other numbers were: n x[0]^3 + n x[1]^3.
  (func (export "counted") (param $x i32) (param $n i32) (result f64) (local $p i32) (local $i i32) (local $sum f64)
    (loop $next
      (local.set $p (call $calloc (i32.const 2) (i32.const 8)))
      (local.set $i (i32.const 0))
      (loop $each
        (f64.store (i32.add (local.get $p) (local.get $i))
          (f64.add (f64.load (i32.add (local.get $p) (local.get $i))) (f64.load (i32.add (local.get $x) (local.get $i)))))
        (br_if $each (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 8))) (i32.const 16))))
      (local.set $sum (f64.add (local.get $sum)
        (f64.add
          (f64.mul (f64.mul (f64.load (local.get $p)) (f64.load (local.get $p))) (f64.load (local.get $p)))
          (f64.mul (f64.mul (f64.load offset=8 (local.get $p)) (f64.load offset=8 (local.get $p))) (f64.load offset=8 (local.get $p))))))
      (call $free (local.get $p))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))

  ;; Nothing is allocated twice, and all is released once: x[0], times how often the allocator was called for two blocks.
  (func (export "calls") (param $x i32) (result f64) (local $before i32) (local $p i32)
    (local.set $before (global.get $calls))
    (local.set $p (call $malloc (i32.const 8)))
    (f64.store (local.get $p) (f64.load (local.get $x)))
    (call $free (call $malloc (i32.const 8)))
    (f64.mul (f64.convert_i32_s (i32.sub (global.get $calls) (local.get $before))) (f64.load (local.get $p))))

  ;; There is no more memory: the allocator itself faults.
  (func (export "far") (param $x i32) (result f64)
    (drop (call $malloc (i32.const 0x700_0000)))
    (f64.store (call $malloc (i32.const 8)) (f64.load (local.get $x)))
    (f64.load (local.get $x))))
